"""Test that the fast YAML reader agrees with the full reader or declines."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.boundary import decode_yaml_subset
from gpufleet.errors import InputError
from gpufleet.fleet.document import find_ambiguous_numbers, read_yaml_document, to_plain_values


def complete(path, text):
    """Return what the reader with line numbers makes of a text; "refused" where it or the rules for numbers refuse."""
    path.write_text(text, encoding="utf-8")
    try:
        node = read_yaml_document(path, "x").node
    except (InputError, ValueError):
        return "refused"
    return "refused" if list(find_ambiguous_numbers(node)) else to_plain_values(node)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: blade[01-20]\nb: [1, 2.5, -3, true]\n", {"a": "blade[01-20]", "b": [1, 2.5, -3, True]}),
        ("a: [null, ~, 'x', \"010\"]\nb:\n", {"a": [None, None, "x", "010"], "b": None}),
        ("day: 2026-11-21\n", {"day": date(2026, 11, 21)}),
        ("net: 10.0.0.0/24\nmac: 2c:cf:67:00:00:07\nserial: 10000000abcd0003\n",
         {"net": "10.0.0.0/24", "mac": "2c:cf:67:00:00:07", "serial": "10000000abcd0003"}),
    ],
)  # fmt: skip
def test_unambiguous_values_are_read(text, value):
    assert decode_yaml_subset(text) == value


@pytest.mark.parametrize(
    "scalar",
    [
        "010", "0o17", "0x1f", "0b11", "1_000", "1e5", "10000000e5", "12:30:45", "20:30:40:50:10:20", ".5", "5.", "+1",
        ".inf", ".nan", "yes", "No", "on", "y", "NULL", "True", "&a x", "*a", "!!str x", "<<", "=", "2026-13-01",
        "2026-11-21 10:00:00", "@x", "`x`", "%x", '"\\ud800"', '"\\0"', "-0", "99999999999999999999",
    ],
)  # fmt: skip
def test_ambiguous_scalars_are_left_to_the_full_reader(scalar):
    assert decode_yaml_subset(f"a: {scalar}\n") is None


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2\n", "1: a\n", "? [a]\n: b\n", "--- a\n--- b\n", "%YAML 1.1\n---\na: b\n", "a: [\n", "\x00", "",
        "a: &x 1\nb: *x\n", "[" * 5000, "- " * 5000, "a: {<<: {b: c}}\n",
    ],
)  # fmt: skip
def test_unusual_documents_are_left_to_the_full_reader(text):
    assert decode_yaml_subset(text) is None


WORDS = st.sampled_from([
    "a", "b: ", ": ", "- ", "\n", "\n  ", "[", "]", "{", "}", ", ", "'", '"', "#", " #", "010", "1", "2.5", "1e3",
    "yes", "true", "null", "~", "2026-11-21",
    "10.0.0.0/24", "&x ", "*x", "!t ", "|", ">", "<<", "?", "%", "\t", "é", "0x1",
    "10000000abcd0003", "2c:cf:67:00:00:07", "key: ", "nodes: ", "x:1", "---\n", "...\n", "\\",
])  # fmt: skip


@given(st.lists(WORDS, max_size=14).map("".join))
def test_fast_reader_returns_what_the_full_reader_returns(tmp_path_factory, text):
    value = decode_yaml_subset(text)
    if value is not None:
        assert complete(tmp_path_factory.getbasetemp() / "x.yaml", text) == value
