"""Test reading of outside YAML: expansion attacks, tags, unusual numbers, and agreement with ruamel."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from gpufleet.boundary import (
    OPERATOR_FILE,
    DocumentLimits,
    decode_yaml,
    decode_yaml_with_comments,
    decode_yaml_with_line_numbers,
)
from gpufleet.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
OURS = sorted(
    {*ROOT.glob("stacks/*.yaml"), *ROOT.glob("inventory/*.yaml"), *ROOT.glob("docs/examples/**/*.yaml")}
)
READERS = pytest.mark.parametrize("read", [decode_yaml, decode_yaml_with_line_numbers])
TEXT = st.text(st.characters(max_codepoint=0x2FF, exclude_categories=["Cc"]), max_size=12)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{name}'] * 9)}]\n"
    for name, after in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_yaml_files_of_this_project_are_read_like_ruamel_reads_them(path):
    text = path.read_text()
    assert decode_yaml(text, "f") == YAML(typ="safe", pure=True).load(text)
    lined, theirs = decode_yaml_with_line_numbers(text, "f"), YAML(typ="rt").load(text)
    assert lined == theirs
    assert [lined.lc.key(key) for key in lined] == [theirs.lc.key(key) for key in theirs]


@READERS
@given(TREES)
def test_json_is_valid_yaml(read, value):
    assert read(json.dumps(value, ensure_ascii=False), "f") == value


@READERS
@given(st.text(max_size=40) | st.text("-: &*?|>!%@`{}[],#\"'\n\tab01<~.", max_size=40))
def test_any_text_decodes_to_a_value_or_a_one_line_error(read, text):
    with suppress(InputError):  # its message is one line, whatever it quotes: test_errors.py
        read(text, "f")


@READERS
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BOMB, r"^f:\d: contains more than 100,000 values$"),
        ("a: &a [*a]", "f:1: an anchor contains itself"),
        ("a: &a {b: {c: *a}}", "f:1: an anchor contains itself"),
        ("a: &a " + "x" * 100_000 + "\nb: [" + "*a," * 50 + "]", "contains more than 4,194,304 characters"),
        ("- " * 65 + "x", "f:1: is nested deeper than 64 levels"),
        ("[" * 10_000, "nested deeper than 64 levels"),
        ("a: b\n c: d", "f:2: is not valid YAML"),
        ("a: 1\na: 2", r'f:2: is not valid YAML: found duplicate key "a"'),
        ("a: \x1b", "control characters are not allowed"),
        ('a: "\\0"', "f:1: contains a NUL character"),
        ("a: \ud800", "f: is not valid YAML|lone surrogate"),
        ("\nday: 2024-13-01", "f:2: '2024-13-01' is not a value: month must be in 1..12"),
        ("day: 2024-02-30", "day is out of range"),
        ("n: .nan", "nan is not a number"),
        ("n: -.inf", "-inf is not a number"),
        ("n: 1e999", "inf is not a number"),
        ("n: 1" + "0" * 5000, "more digits than a number has"),
        ("n: 0x" + "f" * 40, "integer over 64 bits"),
        ("n: 0x_", "is not a value"),
        ("a: !!python/object/apply:os.system [id]", "f:1: has the tag !!python/object/apply:os.system"),
        ("a: !!binary aGk=", "has the tag !!binary"),
        ("a: !!set {b}", "has the tag !!set"),
        ("a: !vault x", "has the tag !vault"),
        ("%YAML 1.1\n---\na: yes", "f:2: is YAML 1.1|f:1: is YAML 1.1"),
        ("a: 1\n---\nb: 2", "f:2: contains more than one YAML document"),
        ("? [a, b]\n: c", "f:1: has a key that is not a string"),
        ("a: *b", "f:1: has no anchor &b"),
        ("<<: 1", "expected a mapping"),
    ],
)
def test_unsupported_yaml_is_refused(read, text, problem):
    with pytest.raises(InputError, match=problem) as excinfo:
        read(text, "f")
    assert "\n" not in str(excinfo.value)


@READERS
def test_limit_check_and_reader_count_the_same_values(read):
    """YAML 1.1 ends a line at U+2028, 1.2 does not: what one takes for a comment must not be the other's bomb."""
    hidden = BOMB.replace("\n", "\u2028")
    for text in (f"# {hidden}\na: 1", f"b: '{hidden}'", f"c: |\n  x\u2028{hidden}"):
        try:
            value = read(text, "f")
        except InputError:
            continue
        assert len(json.dumps(value)) < 10_000


def test_limits_are_exact():
    limits = DocumentLimits(bytes=100, depth=2, values=5, characters=4)
    assert decode_yaml("[[1, 2], 3]", "f", limits) == [[1, 2], 3]
    for text in ("[[1, 2], 3, 4]", "[[[1]]]", "abcde", "#" + "x" * 100):
        with pytest.raises(InputError):
            decode_yaml(text, "f", limits)
    assert decode_yaml("abcd", "f", limits) == "abcd"


def test_aliases_and_merge_keys_are_resolved():
    text = "base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\ntwo: *b\n"
    assert decode_yaml(text, "f") == {
        "base": {"x": 1, "y": 2},
        "one": {"x": 1, "y": 3},
        "two": {"x": 1, "y": 2},
    }
    lined = decode_yaml_with_line_numbers(text, "f")
    assert (lined["one"]["x"], lined["one"]["y"], lined.lc.key("two")[0]) == (1, 3, 2)


def test_scalars_follow_yaml_1_2():
    text = "a: yes\nb: 010\nc: 0o10\nd: 1:30\ne: ~\nf: '1'\ng: 2024-01-02\nh: =\ni: !!str 1"
    value = decode_yaml(text, "f")
    assert [value[key] for key in "abcdefhi"] == ["yes", 10, 8, "1:30", None, "1", "=", "1"]
    assert str(value["g"]) == "2024-01-02"


@pytest.mark.parametrize("text", ["", "# only a comment", "---\n"])
def test_empty_document_is_none(text):
    assert decode_yaml(text, "f") is None


def test_aliases_count_as_the_values_that_they_repeat():
    assert decode_yaml("a: [1, 2]", "f") == {"a": [1, 2]}
    with pytest.raises(InputError, match="more than 100,000 values"):
        decode_yaml(BOMB, "f", OPERATOR_FILE)


def test_comments_survive_a_rewrite():
    assert decode_yaml_with_comments("# why\na: 1 # here\n", "f").ca.comment
    for text in (BOMB, "a: 1\n" + "#" * 200_000, "a: b: c"):
        with pytest.raises(InputError):
            decode_yaml_with_comments(text, "f")
