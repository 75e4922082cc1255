"""CSV from outside, decoded within limits."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from gpufleet.boundary.limit import OPERATOR_FILE, Limits
from gpufleet.boundary.text import printable, too_large
from gpufleet.errors import InputError


def decode_csv(
    text: str, where: str, required: Iterable[str] = (), limits: Limits = OPERATOR_FILE
) -> list[dict[str, str]]:
    """Return the rows under a header line, by column; a row of another length is an InputError with its line."""
    return [row for _, row in decode_csv_lines(text, where, required, limits)]


def decode_csv_lines(
    text: str,
    where: str,
    required: Iterable[str] = (),
    limits: Limits = OPERATOR_FILE,
    least_columns: int = 1,
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each row with the number of the line that it ends on."""
    if len(text) > limits.bytes:
        raise too_large(len(text), where, limits)
    if "\x00" in text:
        raise InputError("holds a NUL character", where=where)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    count = 0
    try:
        columns = next(reader, [])
        _check_header(columns, where, required, least_columns)
        for fields in reader:
            if not fields:
                continue
            if len(fields) != len(columns):
                raise InputError(
                    f"has {len(fields)} fields, the header has {len(columns)}",
                    where=f"{where}:{reader.line_num}",
                )
            count += len(fields)
            if count > limits.values:
                raise InputError(f"holds more than {limits.values:,} values", where=where)
            yield reader.line_num, dict(zip(columns, fields, strict=True))
    except csv.Error as error:
        raise InputError(f"is not CSV: {printable(error, 120)}", where=f"{where}:{reader.line_num}") from None


def _check_header(columns: list[str], where: str, required: Iterable[str], least: int) -> None:
    place = f"{where}:1"
    if len(columns) < least:
        raise InputError("is not CSV", where=place, remedy="it needs a header line and commas")
    if twice := next((name for name in columns if columns.count(name) > 1), None):
        raise InputError(f"has two columns {printable(twice, 60)!r}", where=place, remedy="name each once")
    for name in required:
        if name not in columns:
            raise InputError(f"has no column {name!r}", where=place)


_FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
)  # the last four: the same marks, full width


def check_cell(text: str, where: str, column: str) -> str:
    """Return a cell's text; refuse what a spreadsheet would run as a formula, and what a terminal would obey.

    A number may begin with a sign, and a lone mark stands for nothing.
    """
    shown = printable(text, 40)
    if printable(text, None) != text:
        raise InputError(f"{shown!r} holds a control character", where=where, key=column, remedy="remove it")
    if len(text) > 1 and text.startswith(_FORMULA) and not _is_number(text):
        raise InputError(f"{shown!r} is a formula", where=where, key=column, remedy="give the value itself")
    return text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
