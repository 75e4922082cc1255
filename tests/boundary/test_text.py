"""Test decoding of outside text, and what a terminal or a log shows of it."""

from __future__ import annotations

import pytest

from gpufleet.boundary import DocumentLimits, decode_text, make_block_printable, make_printable, shorten_repr
from gpufleet.errors import InputError

TEN = DocumentLimits(bytes=10)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_in_any_unicode_encoding_is_read(encoding):
    assert decode_text("é1".encode(encoding), "f") == "é1"


def test_invalid_utf_8_and_too_large_files_are_refused_in_one_line():
    with pytest.raises(InputError, match=r"^f: is not UTF-8 text; save it as UTF-8$"):
        decode_text(b"\xff\xfe\xff\xd8\x00", "f")
    assert decode_text(b"x" * 10, "f", TEN) == "x" * 10
    with pytest.raises(InputError, match=r"^f: is too large: 11 bytes; the limit is 10 bytes$"):
        decode_text(b"x" * 11, "f", TEN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text, 1+1=2 ~", "plain text, 1+1=2 ~"),
        ("naïve 日本 😀 ✈\ufe0f", "naïve 日本 😀 ✈\ufe0f"),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("a\nb\rc\td\x00e\x7f", r"a\nb\rc\td\x00e\x7f"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("a\u00a0b\u2028", r"a\xa0b\u2028"),
        ("\ud800", r"\ud800"),
        ("x\u115f\u3164\u2800", r"x\u115f\u3164\u2800"),
        ("x\ufe00\ufe0d", r"x\ufe00\ufe0d"),
        ("x\ufe0e", "x\ufe0e"),
        ("x\U000e0100\U000e0fff", r"x\U000e0100\U000e0fff"),
        ("x\U000e1000", r"x\U000e1000"),
        (7, "7"),
        (None, "None"),
    ],
)
def test_terminal_control_characters_are_escaped(text, expected):
    assert make_printable(text) == expected


def test_long_text_is_truncated_with_a_mark():
    assert make_printable("x" * 300) == "x" * 300
    assert make_printable("x" * 301) == "x" * 300 + "…"
    assert make_printable("x" * 301, None) == "x" * 301
    assert make_printable("abc", 2) == "ab…"
    assert make_printable("\n\n\n", 2) == r"\n\n…"


def test_block_keeps_its_lines_and_counts_omitted_ones():
    assert make_block_printable("a\r\nb\tc\n\x1b[2J") == "a\nb       c\n\\x1b[2J"
    assert make_block_printable("1\n2\n3\n4", max_lines=2) == "1\n2\n(2 more lines)"
    assert make_block_printable("1\n2", max_lines=2) == "1\n2"
    assert make_block_printable("abc\nd", 2) == "ab…\nd"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", "'x'"),
        ([1, 2, 3, 4, 5], "[1, 2, 3, 4, ...]"),
        ((1, 2, 3, 4, 5), "(1, 2, 3, 4, ...)"),
        ({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}, "{'a': 1, 'b': 2, 'c': 3, 'd': 4, ...}"),
        ([[[[1]]]], "[[[[...]]]]"),
        (1 << 255, str(1 << 255)[:60] + "…"),
        (1 << 256, "a number of 257 bits"),
    ],
)
def test_shortened_value_is_short_for_any_size(value, expected):
    assert shorten_repr(value) == expected


def test_long_string_is_shortened_within_a_line():
    assert len(shorten_repr("y" * 200)) == 61
    assert len(shorten_repr("y" * 200, 20)) == 21
    assert shorten_repr("y" * 200, None) == "'" + "y" * 47 + "..." + "y" * 48 + "'"
