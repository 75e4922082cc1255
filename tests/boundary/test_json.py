"""Test reading of outside JSON: each limit, and one-line errors."""

from __future__ import annotations

import json

import pytest

from gpufleet.boundary import DocumentLimits, NotJsonError, decode_json, decode_json_lines, decode_json_object
from gpufleet.errors import InputError

SMALL = DocumentLimits(bytes=60, depth=3, values=6, characters=10)
# (text, what is wrong with it, None: nothing)
CASES = [
    ("[1, 2, 3, 4, 5]", None),  # the list and five numbers
    ("[1, 2, 3, 4, 5, 6]", "contains more than 6 values"),
    ('{"a": 1, "b": [2]}', None),
    ('{"a": 1, "b": [2, 3]}', "contains more than 6 values"),  # keys count
    (
        '[", , , , , , , , ,"]',
        "contains a text of 17 characters",
    ),  # marks inside a text do not count as values
    ("[[1]]", None),
    ("[[[1]]]", None),
    ("[[[[1]]]]", "is nested deeper than 3 levels"),
    ('"' + "x" * 10 + '"', None),
    ('"' + "x" * 11 + '"', "contains a text of 11 characters"),
    (" " * 59 + "1", None),
    (" " * 60 + "1", "is too large: 61 bytes"),
    ("9223372036854775807", None),
    ("9223372036854775808", "contains an integer over 64 bits"),
    ("-9223372036854775808", None),
    ("-9223372036854775809", "contains an integer over 64 bits"),
    ("NaN", "is not JSON: NaN is not a number that JSON can represent"),
    ("-Infinity", "is not JSON: -Infinity is not a number that JSON can represent"),
    ("1e999", "inf is not a number that JSON can represent"),
    ('"a\\u0000"', r"contains a NUL character: a\x00"),
    ('"a\\ud800"', r"contains a lone surrogate: a\ud800"),
    ('"\\ud83d\\ude00"', None),
    ('{"a\\u0000": 1}', r"contains a NUL character: a\x00"),
    ("true", None),
    ("null", None),
]


@pytest.mark.parametrize(("text", "too_large"), CASES)
@pytest.mark.parametrize("kind", [str, str.encode], ids=["text", "bytes"])
def test_json_within_the_limits_is_decoded_and_other_json_is_refused_in_one_line(text, too_large, kind):
    if too_large is None:
        assert decode_json(kind(text), "here", SMALL) == json.loads(text)
        return
    with pytest.raises(InputError) as excinfo:
        decode_json(kind(text), "here", SMALL)
    assert str(excinfo.value).startswith(f"here: {too_large}")
    assert "\n" not in str(excinfo.value)


def test_syntax_error_is_reported_with_line_position_and_reason():
    with pytest.raises(NotJsonError, match=r"^here:3: is not JSON: ") as excinfo:
        decode_json('{\n"a": 1,\n"b" 2}', "here")
    assert (excinfo.value.line, excinfo.value.position, excinfo.value.reason) == (
        3,
        14,
        "Expecting ':' delimiter",
    )


def test_number_with_10000_digits_is_refused():
    with pytest.raises(InputError, match=r"^here: is not JSON: a number is too long$"):
        decode_json("1" * 10_000, "here")


def test_endless_brackets_are_refused():
    with pytest.raises(InputError, match=r"is nested deeper than|contains more than"):
        decode_json("[" * 100_000, "here")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[]", "a list"),
        ('"x"', "a text"),
        ("true", "a boolean"),
        ("null", "null"),
        ("7", "a number"),
        ("1.5", "a number"),
    ],
)
def test_json_that_is_not_an_object_is_refused_by_its_kind(text, kind):
    with pytest.raises(InputError, match=f"^here: is not a JSON object but {kind}$"):
        decode_json_object(text, "here")
    assert decode_json_object('{"a": 1}', "here") == {"a": 1}


def decode_lines(content, limits=SMALL):
    return [
        (n, str(v) if isinstance(v, InputError) else v) for n, v in decode_json_lines(content, "log", limits)
    ]


def test_json_lines_are_numbered_and_an_invalid_line_affects_no_other():
    decoded = decode_lines('1\n\n  \n{"a": 2}\n{"a\n3\n', DocumentLimits(bytes=100, values=50))
    assert [decoded[0], decoded[1], decoded[3]] == [(1, 1), (4, {"a": 2}), (6, 3)]
    assert decoded[2][0] == 5
    assert decoded[2][1].startswith("log:5:1: is not JSON: ")


def test_limits_apply_to_all_json_lines_together():
    assert [n for n, _ in decode_lines("1\n2\n3", SMALL)] == [1, 2, 3]
    lines = decode_lines("1\n2\n3\n4\n5\n6\n7\n8", SMALL)
    assert lines[-1][1].endswith("contains more than 6 values")
    assert len(lines) < 8
    with pytest.raises(InputError, match="is too large: 61 bytes"):
        list(decode_json_lines("1" * 61, "log", SMALL))
