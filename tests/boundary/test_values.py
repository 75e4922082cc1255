"""Test that strings inside any value are made printable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import BaseModel

from gpufleet.boundary import make_block_printable, make_values_printable

BAD, GOOD = "a\nb\x1b]0;x\x07\u202e", "a\\nb\\x1b]0;x\\x07\\u202e"


class Pair(NamedTuple):
    a: str
    b: int


@dataclass(frozen=True)
class Part:
    name: str
    parts: tuple = ()
    size: int = field(default=0, init=False)


class Model(BaseModel):
    name: str


def test_every_nested_string_is_made_printable():
    printable = make_values_printable({BAD: [Part(BAD, (Pair(BAD, 1), {BAD})), Model(name=BAD), None, 1.5]})
    assert printable == {GOOD: [Part(GOOD, (Pair(GOOD, 1), {GOOD})), Model(name=GOOD), None, 1.5]}


def test_printable_value_is_returned_as_the_same_object():
    value = {"a": [Part("é", (Pair("b", 1),))]}
    assert make_values_printable(value) is value


def test_line_breaks_can_be_kept():
    assert make_values_printable({"text": "a\n\x07"}, make_block_printable) == {"text": "a\n\\x07"}
