"""Test limits, numbers and strings of outside JSON."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.boundary import (
    ENGINE_DOCUMENT,
    DocumentLimits,
    NotJsonError,
    check_value_limits,
    decode_json,
    decode_json_lines,
    decode_json_object,
    validate_with_pydantic,
)
from gpufleet.errors import InputError

SMALL = DocumentLimits(bytes=1000, depth=3, values=10, characters=20)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
TREES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(TREES)
def test_any_json_value_decodes_to_itself(value):
    assert decode_json(json.dumps(value), "f") == value
    assert decode_json(json.dumps(value, ensure_ascii=False).encode(), "f") == value


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_decode_to_a_value_or_a_one_line_error(content):
    with suppress(InputError):  # its message is one line, whatever it quotes: test_errors.py
        decode_json(content, "f")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "f:1: is not JSON: Expecting property name"),
        ('{"a": 1}\n{"b": 2}', "f:2: is not JSON: Extra data"),
        ("[NaN]", "NaN is not a number"),
        ("[-Infinity]", "-Infinity is not a number"),
        ("[1e999]", "inf is not a number"),
        (f"[{2**63}]", "integer over 64 bits"),
        (f"[{-(2**63) - 1}]", "integer over 64 bits"),
        (f"[{'9' * 5000}]", "a number is too long"),
        (r'["\u0000"]', "NUL character"),
        (r'{"\u0000": 1}', "NUL character"),
        (r'["\ud800"]', "lone surrogate"),
        ("[" * 100_000, "nested deeper than 3 levels|too large"),
    ],
)
def test_json_that_other_parsers_reject_is_refused(text, problem):
    with pytest.raises(InputError, match=problem):
        decode_json(text, "f", DocumentLimits(bytes=200_000, depth=3))


@pytest.mark.parametrize(
    ("allowed", "refused", "problem"),
    [
        ([[[1]]], [[[[1]]]], "nested deeper than 3 levels"),
        ([0] * 9, [0] * 10, "more than 10 values"),
        (["x" * 20], ["x" * 21], "a text of 21 characters"),
        ({"a": {"b": 1}, "c": [2, 3]}, {"a": {"b": 1}, "c": [2, 3, 4, 5]}, "more than 10 values"),
    ],
)
def test_limit_is_exact(allowed, refused, problem):
    assert decode_json(json.dumps(allowed), "f", SMALL) == allowed
    with pytest.raises(InputError, match=problem):
        decode_json(json.dumps(refused), "f", SMALL)


def test_size_is_measured_before_parsing():
    with pytest.raises(InputError, match=r"^f: is too large: 1,001 bytes; the limit is 1,000 bytes$"):
        decode_json(" " * 1001, "f", SMALL)
    with pytest.raises(InputError, match="more than 10 values"):
        decode_json("[" + "[]," * 300, "f", SMALL)  # not JSON either, but never parsed
    with pytest.raises(InputError, match="more than 1,500,000 values"):
        decode_json("[" + "[]," * 5_000_000 + "1]", "f", ENGINE_DOCUMENT)


def test_punctuation_inside_a_string_does_not_count_as_values():
    value = [",:[{" * 5, r"\"" * 5, "\\", '"']
    assert decode_json(json.dumps(value), "f", SMALL) == value


def test_too_many_strings_are_refused_before_parsing():
    with pytest.raises(InputError, match="more than 10 values"):
        decode_json("[" + '"\\\\",' * 60 + "1]", "f", DocumentLimits(bytes=1000, values=10))


@pytest.mark.parametrize(
    ("text", "kind"), [("[1]", "a list"), ('"a"', "a text"), ("1", "a number"), ("null", "null")]
)
def test_json_document_must_be_an_object(text, kind):
    with pytest.raises(InputError, match=f"^f: is not a JSON object but {kind}$"):
        decode_json_object(text, "f")


def test_error_has_the_position_where_the_json_ends():
    with pytest.raises(NotJsonError) as excinfo:
        decode_json('{\n"a": tru', "f")
    assert (excinfo.value.line, excinfo.value.position, excinfo.value.reason) == (2, 7, "Expecting value")


def test_json_lines_are_numbered_and_an_invalid_line_does_not_stop_the_reader():
    decoded = list(decode_json_lines('{"a": 1}\n\n{bad\n[2]\n{"cut', "log"))
    assert [number for number, _ in decoded] == [1, 3, 4, 5]
    assert (decoded[0][1], decoded[2][1]) == ({"a": 1}, [2])
    assert str(decoded[1][1]).startswith("log:3:1: is not JSON")
    assert isinstance(decoded[3][1], InputError)


def test_total_size_of_json_lines_is_bounded():
    decoded = list(decode_json_lines("[1,2]\n" * 10, "log", SMALL))
    assert [value for _, value in decoded[:2]] == [[1, 2], [1, 2]]
    assert "more than 10 values" in str(decoded[-1][1])
    assert len(decoded) < 5
    assert len(list(decode_json_lines("\n" * 500, "log", SMALL))) == 1


def test_unicode_line_separator_does_not_end_a_json_line():
    text = '"a\u2028b\x85c"'
    assert list(decode_json_lines(text, "log")) == [(1, "a\u2028b\x85c")]


def test_check_shape_counts_keys_and_values():
    assert check_value_limits({"a": [1, {"b": None}]}, "f") == 7
    with pytest.raises(InputError, match="NUL"):
        check_value_limits({"a\x00": 1}, "f")


def test_first_validation_error_of_a_model_is_one_line_with_its_key():
    from pydantic import BaseModel

    class Card(BaseModel):
        count: int
        names: list[str]

    assert validate_with_pydantic(Card, {"count": 1, "names": []}, "f").count == 1
    with pytest.raises(
        InputError, match=r"^f: names\.0: Input should be a valid string, got .* \(and 1 more\)$"
    ):
        validate_with_pydantic(Card, {"count": 1, "names": [10**400, ["\x1b"]]}, "f")
