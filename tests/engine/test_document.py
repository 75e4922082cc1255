"""What is not the engine's JSON is told in one line, with the place and a remedy."""

from __future__ import annotations

import json

import pytest

from gpufleet.engine import read_document
from gpufleet.errors import InputError


def test_a_document_is_read():
    assert read_document('{"steps": []}', "-") == {"steps": []}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("Previewing update (dev):\n", "starts with 'Previewing update"),
        ("[1, 2]", "not an object"),
        ('{"a": 1}\n{"a": 2}\n', "more than one JSON document"),
        ('{"a": tru', "not JSON"),
    ],
)
def test_other_text_is_refused(text, words):
    with pytest.raises(InputError, match=words) as caught:
        read_document(text, "standard input")
    assert str(caught.value).startswith("standard input")
    assert "\n" not in str(caught.value)


def test_a_preview_cut_anywhere_is_refused(recorded):
    whole = json.dumps(recorded("preview-changes"))
    for end in range(1, len(whole) - 1, 501):
        with pytest.raises(InputError):
            read_document(whole[:end], "-")


def test_a_preview_cut_in_a_string_says_so():
    with pytest.raises(InputError, match="ends too early"):
        read_document('{"steps": [{"op": "sa', "-")
