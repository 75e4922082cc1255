"""CSV, XML and YAML from outside, identifiers, and typed models: limits, messages and places."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from gpufleet.boundary import (
    DocumentLimits,
    check_cell_safety,
    check_identifier,
    decode_csv,
    decode_xml,
    decode_yaml,
    decode_yaml_subset,
    decode_yaml_with_line_numbers,
    is_identifier,
    validate_with_pydantic,
)
from gpufleet.errors import InputError

SMALL = DocumentLimits(bytes=60, depth=3, values=6, characters=10)


def error_of(call):
    with pytest.raises(InputError) as excinfo:
        call()
    assert "\n" not in str(excinfo.value)
    return str(excinfo.value)


def test_csv_rows_have_columns_and_line_numbers():
    text = 'a,b\r\n1,"x\ny"\n\n3,4\n'
    assert decode_csv(text, "f", ["a", "b"]) == [{"a": "1", "b": "x\ny"}, {"a": "3", "b": "4"}]
    assert [row.where for row in decode_csv(text, "f")] == ["f:3", "f:5"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1\n", "f:2: has 1 fields, the header has 2"),
        ("a,b\n1,2,3\n", "f:2: has 3 fields, the header has 2"),
        ("a,a\n", "f:1: has two columns 'a'; give each column a different name"),
        ("b\n", "f:1: has no column 'a'"),
        ("", "f:1: is not CSV; the file needs a header line and comma-separated columns"),
        ("a\n\x00\n", "f: contains a NUL character"),
        ('a\n"x"y\n', "f:2: is not CSV: ',' expected after '\"'"),
        ("a\n" + "1\n" * 7, "f: contains more than 6 values"),
        ("a" * 61, "f: is too large: 61 bytes; the limit is 60 bytes"),
    ],
)
def test_invalid_csv_is_refused_in_one_line(text, message):
    assert error_of(lambda: decode_csv(text, "f", ["a"], SMALL)) == message


def test_csv_of_exactly_the_limits_is_read():
    assert len(decode_csv("a\n" + "1\n" * 6, "f", ["a"], SMALL)) == 6
    assert error_of(lambda: decode_csv("a\n", "f", min_columns=2)).startswith("f:1: is not CSV")
    assert decode_csv("a,b\n", "f", min_columns=2) == []


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd", "-x", "@SUM(A1)", "\uff1dx", "\uff0bx", "\uff0dx", "\uff20x"]
)
def test_formula_in_a_cell_is_refused(text):
    assert error_of(lambda: check_cell_safety(text, "f:2", "name")).startswith("f:2: name: ")
    assert "is a spreadsheet formula; give the value itself" in error_of(
        lambda: check_cell_safety(text, "f:2", "name")
    )


@pytest.mark.parametrize("text", ["-1.5", "+2", "-", "=", "@", "", "p4d.24xlarge", "a=b"])
def test_numbers_single_signs_and_names_are_accepted_in_cells(text):
    assert check_cell_safety(text, "f:2", "name") == text


def test_control_character_in_a_cell_is_refused():
    assert error_of(lambda: check_cell_safety("a\x1b[2J", "f:2", "x")) == (
        r"f:2: x: 'a\\x1b[2J' contains a control character; remove it"
    )


def test_xml_is_bounded_and_entities_are_refused():
    assert decode_xml("<a><b c='1'/></a>", "x", SMALL)[0].get("c") == "1"
    assert error_of(
        lambda: decode_xml("<a><b><c><d/></c></b></a>", "x", DocumentLimits(bytes=60, depth=3))
    ) == ("x: is nested deeper than 3 levels")
    assert decode_xml("<a><b><c/></b></a>", "x", DocumentLimits(bytes=60, depth=3)).tag == "a"
    assert (
        error_of(lambda: decode_xml("<a>" + "<b/>" * 5 + "</a>", "x", SMALL))
        == "x: contains more than 6 values"
    )
    assert decode_xml("<a>" + "<b/>" * 4 + "</a>", "x", SMALL).tag == "a"
    assert error_of(lambda: decode_xml("<a>", "x")).startswith("x: is not XML: ")
    assert (
        error_of(lambda: decode_xml("x" * 61, "x", SMALL))
        == "x: is too large: 61 bytes; the limit is 60 bytes"
    )
    bomb = '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
    assert error_of(lambda: decode_xml(bomb, "x")).startswith("x: is not XML: Entit")


YAML_CASES = [
    ("a: 1\nb: [x, 2.5, true, null]\n", {"a": 1, "b": ["x", 2.5, True, None]}),
    ("x: &a [1]\ny: *a\n", {"x": [1], "y": [1]}),
    ("no: yes\n", {"no": "yes"}),  # YAML 1.2: neither is a boolean
    ("a: 010\n", {"a": 10}),
    ("", None),
]
WRONG_YAML = [
    ("a: [1, 2, 3, 4, 5]", "f:1: contains more than 6 values"),
    ("a:\n  b:\n    c:\n      d: 1\n", "f:4: is nested deeper than 3 levels"),
    ("a: " + "x" * 11, "f:1: contains a text that is too long"),
    ("a: &a [*a]", "f:1: an anchor contains itself"),
    ("a: *b", "f:1: "),
    ("a: 1\n---\nb: 2\n", "f:2: contains more than one YAML document; keep one"),
    ("%YAML 1.1\n---\na: 1\n", "f:1: is YAML 1.1; remove the %YAML line"),
    ("a: !!set {}", "f:1: has the tag !!set; remove the tag"),
    ("a: !x 1", "f:1: has the tag !x; remove the tag"),
    ("? [1]\n: 2\n", "f:1: has a key that is not a string; correct that line"),
    ("a: 1\nb: [\n", "f:"),
    ("a: .nan", "f:1: nan is not a number that JSON can represent"),
    ("a: 2026-13-01", "f:1: '2026-13-01' is not a value: "),
    ("x" * 61, "f: is too large: 61 bytes; the limit is 60 bytes"),
    ("a: &a [x,x]\nb: [*a, *a]", "f:2: contains more than 6 values"),
]


@pytest.mark.parametrize(("text", "value"), YAML_CASES)
def test_yaml_is_read_as_version_1_2(text, value):
    assert decode_yaml(text, "f") == value
    if text:
        assert decode_yaml_with_line_numbers(text, "f") == value


@pytest.mark.parametrize(("text", "message"), WRONG_YAML)
@pytest.mark.parametrize("reader", [decode_yaml, decode_yaml_with_line_numbers])
def test_invalid_yaml_is_refused_in_one_line_with_its_place(reader, text, message):
    assert error_of(lambda: reader(text, "f", SMALL)).startswith(message)


def test_yaml_of_exactly_the_limits_is_read():
    assert decode_yaml("a: [1, 2, 3]", "f", SMALL) == {"a": [1, 2, 3]}
    assert decode_yaml("a:\n  b:\n    c: 1\n", "f", DocumentLimits(bytes=60, depth=3)) == {
        "a": {"b": {"c": 1}}
    }
    assert decode_yaml("a: " + "x" * 10, "f", SMALL) == {"a": "x" * 10}


def test_line_numbers_of_yaml_keys_are_known():
    document = decode_yaml_with_line_numbers("a: 1\n\nb:\n  c: 2\n", "f")
    assert [document.lc.key(key)[0] for key in ("a", "b")] == [0, 2]


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: [x, 2.5, true, null, -3]\nc: 'q'\nd: 10.0.0.0/8\ne: 2026-11-21\n",
        "- a\n- b: {c: ~}\n",
        "a: aa:bb:cc:dd:ee:ff",
    ],
)
def test_fast_yaml_reader_agrees_with_the_full_reader(text):
    assert decode_yaml_subset(text) == decode_yaml(text, "f")


@pytest.mark.parametrize(
    "text",
    ["a: &x 1", "a: *x", "a: !!str 1", "a: 010", "a: 0x1f", "a: 1e3", "a: yes", "<<: {a: 1}", "a: 1\na: 2", "a: .nan",
     "%YAML 1.2\n---\na: 1", "a: 1\n---\nb: 1", "a: [", "1: a", "a: '\\x00'\x00", "a: -0", "a: 1_0", "a: +1",
     "a: 12e5"],
)  # fmt: skip
def test_fast_yaml_reader_declines_ambiguous_yaml(text):
    assert decode_yaml_subset(text) is None


def test_fast_yaml_reader_has_the_limits_of_the_full_reader():
    assert decode_yaml_subset("[1, 2, 3, 4, 5]", SMALL) == [1, 2, 3, 4, 5]
    assert decode_yaml_subset("[1, 2, 3, 4, 5, 6]", SMALL) is None
    assert decode_yaml_subset("'" + "x" * 10 + "'", SMALL) == "x" * 10
    assert decode_yaml_subset("'" + "x" * 11 + "'", SMALL) is None
    assert decode_yaml_subset(" " * 60 + "a", SMALL) is None
    assert decode_yaml_subset("[" * 20 + "a" + "]" * 20) is not None
    assert decode_yaml_subset("[" * 21 + "a" + "]" * 21) is None


IDENTIFIERS = [
    ("serial", ["S123", "a", "SN 12:3/4.", "x" * 128], ["", " a", "a ", "-a", "a\n", "a{b", "x" * 129, "a#b", None, 7]),
    ("name", ["blade01", "a_b.c", "x" * 253], ["", "-a", "a-", "a b", "x" * 254, "a/b", "#jinja2:x"]),
    ("instance id", ["i-0123", "subscriptions/a/b(1)", "x" * 512], ["", "a b", "/a/", "x" * 513]),
    ("model", ["NVIDIA A100-SXM4-80GB", "AMD Radeon(TM) 780M", "(x)", "A™", "x" * 256],
     ["", " x", "x ", "{{x}}", "x\ty", "x" * 257]),
    ("attempt", ["20261121T1000Z-ab", "a+b", "x" * 128], ["", "a/b", "a b", "x" * 129, "-a"]),
    ("address", ["10.0.0.1", "blade01.lan", "fe80::1%eth0", "::1", "2001:db8::2"],
     ["", "10.0.0.1;rm", "::1%" + "x" * 16, "fe80::1%e h", "a b", "[::1]"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "good", "bad"), IDENTIFIERS, ids=[kind for kind, *_ in IDENTIFIERS])
def test_identifier_is_well_formed_or_refused(kind, good, bad):
    assert [value for value in good if not is_identifier(value, kind)] == []
    assert [value for value in bad if is_identifier(value, kind)] == []
    assert check_identifier(good[0], kind, "h") == good[0]
    assert error_of(lambda: check_identifier(bad[-1], kind, "h", "k")).startswith("h: k: ")
    assert f"is not a well-formed {kind}" in error_of(lambda: check_identifier(bad[0], kind, "h"))


class Report(BaseModel):
    name: str
    cards: list[int] = []


def test_first_validation_error_of_a_model_is_reported_with_its_key():
    assert validate_with_pydantic(Report, {"name": "a", "cards": [1]}, "h").cards == [1]
    text = error_of(lambda: validate_with_pydantic(Report, {"name": "a", "cards": [1, "\x1b"]}, "h"))
    assert text.startswith("h: cards.1: Input should be a valid integer")
    assert text.endswith(r"got '\x1b'")
    assert error_of(lambda: validate_with_pydantic(Report, {"cards": ["x", "y"]}, "h")).endswith(
        "(and 2 more)"
    )
