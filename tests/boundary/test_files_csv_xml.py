"""Files, CSV and XML from outside."""

from __future__ import annotations

import io
import os
import socket
from contextlib import suppress
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.boundary import (
    DocumentLimits,
    check_cell_safety,
    decode_csv,
    decode_ini,
    decode_xml,
    read_bytes,
    read_packaged_rows,
    read_packaged_yaml,
    read_text,
    read_text_stream,
)
from gpufleet.errors import InputError

TEN = DocumentLimits(bytes=10)
CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r"), max_size=10)


def test_file_of_exactly_the_size_limit_is_read_completely(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * 10)
    assert read_bytes(path, TEN) == b"x" * 10
    path.write_bytes(b"x" * 11)
    with pytest.raises(InputError, match="is too large: 11 bytes; the limit is 10 bytes"):
        read_bytes(path, TEN)


def test_irregular_file_is_refused_without_reading(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # no process writes to it
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        for path in (pipe, tmp_path, tmp_path / "s", tmp_path / "none", "/dev/zero", "a\x00b"):
            with pytest.raises(InputError):
                read_bytes(path)


def test_file_that_reports_a_wrong_size_is_not_read_past_its_limit():
    with pytest.raises(InputError, match="too large"):
        read_text("/proc/self/environ" if len(os.environ) > 1 else "/proc/cpuinfo", TEN)


def test_symlink_is_followed_only_where_allowed(tmp_path):
    (tmp_path / "f").write_text("a")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    assert read_text(tmp_path / "link") == "a"
    with pytest.raises(InputError, match="cannot be read"):
        read_text(tmp_path / "link", follow_symlinks=False)


def test_stream_is_not_read_past_its_limit():
    assert read_text_stream(io.BytesIO(b"x" * 10), "standard input", TEN) == "x" * 10
    with pytest.raises(InputError, match="standard input: is too large"):
        read_text_stream(io.BytesIO(b"x" * 1000), "standard input", TEN)


@given(st.lists(st.lists(CELL, min_size=2, max_size=2), max_size=5))
def test_written_csv_decodes_to_the_same_rows(rows):
    text = "a,b\n" + "".join(
        ",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\n" for row in rows
    )
    assert decode_csv(text, "f") == [{"a": first, "b": second} for first, second in rows]


@given(st.text(max_size=40) | st.text('",\n\rab', max_size=40))
def test_any_text_decodes_to_rows_or_a_one_line_error(text):
    with suppress(InputError):  # its message is one line, whatever it quotes: test_errors.py
        decode_csv(text, "f", ("a",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "f:1: is not CSV"),
        ("a\n1\n", "f:1: has no column 'b'"),
        ("b,b\n", "f:1: has two columns 'b'"),
        ("b,c\n1\n", "f:2: has 1 fields, the header has 2"),
        ("b,c\n1,2\n1,2,3\n", "f:3: has 3 fields, the header has 2"),
        ('b,c\n"1,2\n', "f:2: is not CSV"),
        ("b,c\n1,\x00\n", "NUL"),
        ("b\n" + "x" * 200_000, "f:2: is not CSV: field larger"),
        ("b,c\n" + "1,2\n" * 60_000, "more than 100,000 values"),
    ],
)
def test_invalid_csv_is_refused(text, problem):
    with pytest.raises(InputError, match=problem):
        decode_csv(text, "f", ("b",))


def test_rows_have_line_numbers_and_blank_lines_are_skipped():
    rows = decode_csv('a,b\n1,"x\ny"\n\n3,4\n', "f")
    assert rows == [{"a": "1", "b": "x\ny"}, {"a": "3", "b": "4"}]
    assert [row.where for row in rows] == ["f:3", "f:5"]


def test_cells_are_converted_to_the_type_of_their_column():
    (row,) = decode_csv("n,i,f,w,d,c\n1.5,7,yes,a b,2026-07-06,high\n", "f")
    assert (row.get_number("n"), row.get_integer("i"), row.get_boolean("f")) == (1.5, 7, True)
    assert (row.get_words("w"), row.get_date("d"), row.get_choice("c", ("high", "low"))) == (
        ("a", "b"),
        date(2026, 7, 6),
        "high",
    )


def test_empty_cell_is_read_as_none_or_false():
    (row,) = decode_csv("n,f,w\n,,\n", "f")
    assert row.get_optional_number("n") is None
    assert (row.get_boolean("f"), row.get_words("w")) == (False, ())


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("get_number", "f:2: a: 'x' is not a number"),
        ("get_optional_number", "f:2: a: 'x' is not a number"),
        ("get_integer", "f:2: a: 'x' is not an integer"),
        ("get_boolean", "f:2: a: 'x' is neither yes nor no"),
        ("get_date", "f:2: a: 'x' is not a date"),
    ],
)
def test_cell_error_names_line_and_column(method, message):
    (row,) = decode_csv("a,b\nx,y\n", "f")
    with pytest.raises(InputError) as excinfo:
        getattr(row, method)("a")
    assert str(excinfo.value) == message


def test_cell_with_unknown_choice_or_column_is_refused():
    (row,) = decode_csv("a,b\nx,nan\n", "f")
    with pytest.raises(InputError, match="f:2: a: 'x' is not one of low, high"):
        row.get_choice("a", ("low", "high"))
    with pytest.raises(InputError, match="f:2: b: 'nan' is not a number"):
        row.get_number("b")
    with pytest.raises(InputError, match="f:2: c: the file has no such column"):
        row.get_integer("c")


@pytest.mark.parametrize(
    "text", ["=1+1", "=cmd|' /C calc'!A0", "+A1", "-A1", "@SUM(A1)", "\uff1d1+1", "-2+3"]
)
def test_formula_is_refused_with_its_line_and_column(text):
    with pytest.raises(InputError, match=r"^f:3: machine: .* is a spreadsheet formula"):
        check_cell_safety(text, "f:3", "machine")


@pytest.mark.parametrize("text", ["\x1b[2J", "a\nb", "a\tb", "a\u202eb", "a\u200bb", "\x7f"])
def test_control_character_is_refused_with_its_line_and_column(text):
    with pytest.raises(
        InputError, match=r"^f:3: machine: .* contains a control character; remove it$"
    ) as excinfo:
        check_cell_safety(text, "f:3", "machine")
    assert str(excinfo.value).isprintable()


@pytest.mark.parametrize("text", ["-1.5", "+2", "-", "1e-3", "", "p4d.24xlarge", "Zürich", "a=b", "-inf"])
def test_cell_without_formula_or_control_characters_is_returned_unchanged(text):
    assert check_cell_safety(text, "f:3", "machine") == text


def test_xml_decodes_to_an_element_tree():
    root = decode_xml('<?xml version="1.0"?><!DOCTYPE a SYSTEM "none.dtd"><a><b c="1">x</b></a>', "f")
    assert (root.tag, root.findtext("b")) == ("a", "x")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "is not XML: EntitiesForbidden"),
        ('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', "EntitiesForbidden"),
        ("<a>" * 100, "is not XML|nested deeper"),
        ("<a>" * 40 + "</a>" * 40, "is nested deeper than 32 levels"),
        ("<a>" + "<b/>" * 60_000 + "</a>", "more than 50,000 values"),
        ("<a b='1' b='2'/>", "is not XML: duplicate attribute"),
        ("", "is not XML"),
        ("<a>\x00</a>", "is not XML"),
        ("<a>\ud800</a>", "is not XML"),
        ("x" * (5 << 20), "too large"),
    ],
)
def test_invalid_xml_is_refused(text, problem):
    with pytest.raises(InputError, match=problem):
        decode_xml(text, "f")


@given(st.text(max_size=40) | st.text("<>/&;!ab'\"=", max_size=40))
def test_any_text_decodes_to_a_tree_or_a_one_line_error(text):
    with suppress(InputError):  # its message is one line, whatever it quotes: test_errors.py
        decode_xml(text, "f")


def test_packaged_data_is_read_by_package_name():
    first = read_packaged_rows("gpufleet.burnin", "data/xid.csv")[0]
    assert first.get_integer("code")
    assert first.where == "gpufleet/burnin/data/xid.csv:2"
    assert read_packaged_yaml("gpufleet.nodes", "data/wipe_methods.yaml")["any"]


def test_ini_keeps_percent_signs_and_drops_comments():
    text = "[defaults]\nKey = 50% ; why\nlist = a,\n  b\n[other]\n"
    assert decode_ini(text, "ansible.cfg") == {"defaults": {"key": "50%", "list": "a,\nb"}, "other": {}}


@pytest.mark.parametrize("text", ["key = value\n", "[a]\n[a]\n", "[a]\nkey = 1\nkey = 2\n", "[a]\nnothing\n"])
def test_text_that_is_not_ini_names_its_file(text):
    with pytest.raises(InputError, match="is not an INI file") as caught:
        decode_ini(text, "ansible.cfg")
    assert caught.value.where == "ansible.cfg"


def test_ini_has_a_limit():
    with pytest.raises(InputError, match="is too large"):
        decode_ini("[abcdefghij]", "ansible.cfg", TEN)
