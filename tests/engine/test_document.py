"""Test that text which is not JSON of the engine is refused in one line with place and remedy."""

from __future__ import annotations

import json

import pytest

from gpufleet.boundary import decode_text
from gpufleet.engine import add_source_to_errors, parse_engine_json, parse_last_phase_of_log
from gpufleet.errors import InputError


def test_preview_document_is_read():
    assert parse_engine_json('{"steps": []}', "-") == {"steps": []}


@pytest.mark.parametrize("before", ["", "Installing policy pack acme 0.0.7...\n\n"])
@pytest.mark.parametrize("after", ["", "Update plan written to plan.txt\nwarning: an update is available\n"])
def test_lines_of_text_around_the_document_are_skipped(before, after):
    document = json.dumps({"steps": [{"op": "same"}], "changeSummary": {}}, indent=4)
    assert parse_engine_json(f"{before}{document}\n{after}", "-")["steps"] == [{"op": "same"}]


@pytest.mark.parametrize("other", ['{\n "steps": []\n}\n', "[1]\n", '{"steps": []}\n'])
def test_another_document_next_to_the_first_is_refused(other):
    document = json.dumps({"steps": []}, indent=4) + "\n"
    for text in (document + other, other + document):
        with pytest.raises(InputError):
            parse_engine_json(text, "-")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("Previewing update (dev):\n", "starts with 'Previewing update"),
        ("[1, 2]", "is not a JSON object"),
        ('{"a": 1}\n{"a": 2}\n', "contains more than one JSON document"),
        ('{"a": tru', "not JSON"),
    ],
)
def test_text_that_is_not_one_json_object_is_refused(text, message):
    with pytest.raises(InputError, match=message) as excinfo:
        parse_engine_json(text, "standard input")
    assert str(excinfo.value).startswith("standard input")
    assert "\n" not in str(excinfo.value)


def test_preview_truncated_anywhere_is_refused(load_recording):
    complete = json.dumps(load_recording("preview-changes"))
    for end in range(1, len(complete) - 1, 501):
        with pytest.raises(InputError):
            parse_engine_json(complete[:end], "-")


def test_preview_truncated_in_a_string_is_reported():
    with pytest.raises(InputError, match="ends in the middle of the JSON document"):
        parse_engine_json('{"steps": [{"op": "sa', "-")


@pytest.mark.parametrize("read", [parse_engine_json, parse_last_phase_of_log])
@pytest.mark.parametrize("opened", ["[", '{"a":'])
def test_endless_brackets_are_refused(read, opened):
    with pytest.raises(InputError) as excinfo:
        read(opened * 100_000, "deep.json")
    assert str(excinfo.value).startswith("deep.json")
    assert "nested deeper than" in str(excinfo.value)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_document_in_any_unicode_encoding_is_read(encoding):
    content = '{"steps": ["Zürich"]}'.encode(encoding)  # PowerShell 5 writes UTF-16, Notepad a mark
    assert parse_engine_json(decode_text(content, "a"), "a") == {"steps": ["Zürich"]}


@pytest.mark.parametrize("content", [b"\xff\x00\x80", "Zürich".encode("latin-1"), b"\xff\xfea"])
def test_invalid_text_is_refused_in_one_line(content):
    with pytest.raises(InputError, match=r"^a: is not UTF-8 text"):
        decode_text(content, "a")


def test_error_without_a_file_name_gets_one():
    with (
        pytest.raises(InputError, match=r"^p\.json: not a preview; give it$"),
        add_source_to_errors("p.json"),
    ):
        raise InputError("not a preview", remedy="give it")
    with pytest.raises(InputError, match=r"^line 4: wrong$"), add_source_to_errors("p.json"):
        raise InputError("wrong", where="line 4")
