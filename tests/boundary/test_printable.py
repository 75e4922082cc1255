"""Test that printed text is printable and that outside text is decoded."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.boundary import (
    DocumentLimits,
    decode_text,
    is_identifier,
    make_block_printable,
    make_printable,
    shorten_repr,
)
from gpufleet.errors import InputError

VALUES = [10**5000, "x" * 10**6, [[[[[[1]]]]]], {"a": ["b"] * 10**5}, "\x1b[2J", None, b"\xff"]
ANY = st.text(st.characters(), max_size=80)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),  # OSC: sets the window's title
        ("\x1b]8;;http://x\x1b\\a", r"\x1b]8;;http://x\x1b\a"),  # OSC 8: a link
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b31m", r"\x9b31m"),  # CSI in one byte
        ("a\nb", r"a\nb"),
        ("a\rb", r"a\rb"),
        ("a\tb", r"a\tb"),
        ("a\u2028b\u2029c\x85d", r"a\u2028b\u2029c\x85d"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\u2066a\u2069", r"\u2066a\u2069"),
        ("a\u200bb\u200db\u2060c\ufeffd", r"a\u200bb\u200db\u2060c\ufeffd"),
        ("a\u00adb", r"a\xadb"),  # soft hyphen
        ("\U000e0041\U000e007f", r"\U000e0041\U000e007f"),  # tags
        ("a\U000e0101", r"a\U000e0101"),  # a variation selector carries a hidden byte
        ("a\ufe00", r"a\ufe00"),
        ("\u3164\u2800\u115f", r"\u3164\u2800\u115f"),  # letters that show nothing
        ("\ud800", r"\ud800"),
        ("\ue000", r"\ue000"),  # private use
        ("\u0378", r"\u0378"),  # unassigned
        ("a\u00a0b", r"a\xa0b"),
        ("\x00\x7f", r"\x00\x7f"),
    ],
)
def test_control_and_invisible_characters_become_escapes(text, expected):
    assert make_printable(text) == expected


@pytest.mark.parametrize(
    "text", ["Zürich", "节点", "🚀 ready", "❤\ufe0f", "e\u0301", "NVIDIA A100-SXM4-80GB", "a b"]
)
def test_visible_text_is_unchanged(text):
    assert make_printable(text) == text


@given(ANY)
def test_printable_text_is_one_line_without_control_or_format_characters(text):
    printable = make_printable(text)
    assert printable.isprintable()
    assert not {unicodedata.category(character) for character in printable} & {
        "Cc",
        "Cf",
        "Cs",
        "Co",
        "Cn",
        "Zl",
        "Zp",
    }
    assert make_printable(printable, None) == printable  # a second gate changes nothing
    printable.encode()


def test_long_text_is_truncated():
    assert make_printable("a" * 1000) == "a" * 300 + "…"
    assert make_printable("a" * 1000, None) == "a" * 1000


@given(st.lists(ANY, max_size=5))
def test_block_keeps_its_line_breaks(lines):
    text = "\n".join(line.replace("\n", "") for line in lines)
    assert len(make_block_printable(text).split("\n")) == len(text.split("\n"))


def test_omitted_lines_of_a_block_are_counted():
    assert make_block_printable("a\r\nb\x1b\nc\nd", max_lines=2) == "a\nb\\x1b\n(2 more lines)"


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_shortened_value_has_at_most_61_characters(value):
    assert len(shorten_repr(value)) <= 61
    assert shorten_repr(value).isprintable()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_with_any_unicode_byte_order_mark_is_decoded(encoding):
    assert decode_text("Zürich".encode(encoding), "f") == "Zürich"


@pytest.mark.parametrize(
    "content", [b"\xff\x00\x80", b"\xed\xa0\x80", "Zürich".encode("latin-1"), b"\xff\xfea"]
)
def test_invalid_utf_8_is_refused_in_one_line(content):
    with pytest.raises(InputError, match=r"^f: is not UTF-8 text; save it as UTF-8$"):
        decode_text(content, "f")


def test_too_large_text_is_refused_with_its_size_and_the_limit():
    with pytest.raises(InputError, match=r"^f: is too large: 11 bytes; the limit is 10 bytes$"):
        decode_text(b"x" * 11, "f", DocumentLimits(bytes=10))
    assert decode_text(b"x" * 10, "f", DocumentLimits(bytes=10)) == "x" * 10


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("10.0.0.1", "address"), ("fe80::1%eth0", "address"), ("::1", "address"), ("node-1.example.org", "address"),
        ("1324-5678/AB", "serial"), ("100000003d1e2f4a", "serial"), ("blade01", "name"), ("a", "name"),
        ("Raspberry Pi Compute Module 4 Rev 1.1", "model"), ("AMD Radeon(TM) 780M", "model"),
        ("i-0abc", "instance id"), ("/subscriptions/x"[1:], "instance id"),
    ],
)  # fmt: skip
def test_well_formed_identifier_is_accepted(value, kind):
    assert is_identifier(value, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("-oProxyCommand=id", "address"), ("fe80::1%$(id)", "address"), ("fe80::1%eth0%x", "address"),
        ("a b", "address"),
        ("10.0.0.1\n", "address"), ("", "address"), (None, "address"), (["a"], "name"), ("{{ x }}", "serial"),
        ("#jinja2:variable_start_string:'[['", "serial"), ("a\n", "serial"), ("a\x00", "serial"), ("-a", "name"),
        ("a/b", "name"), ("é", "name"), ("x" * 129, "serial"),
        ("a\u202eb", "model"), ("`id`", "model"), ("$(id)", "serial"),
    ],
)  # fmt: skip
def test_malformed_identifier_is_refused(value, kind):
    assert not is_identifier(value, kind)
