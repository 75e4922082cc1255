"""CSV from outside, decoded within limits."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from functools import partial
from typing import Any, TypeVar

from gpufleet.boundary.limit import OPERATOR_FILE, DocumentLimits
from gpufleet.boundary.text import build_size_limit_error, make_printable
from gpufleet.errors import InputError

Cell = TypeVar("Cell")
FLAGS = {"yes": True, "1": True, "no": False, "0": False, "": False}


class CsvRow(dict[str, str]):
    """One row by column. ``where`` is its place (``file:line``); an InputError about a cell names it and the column."""

    __slots__ = ("_file", "_line")  # a table has thousands of rows

    def __init__(self, cells: Iterable[tuple[str, str]], where: str) -> None:
        super().__init__(cells)
        self._file, self._line = where, 0

    @classmethod
    def build(cls, columns: list[str], cells: list[str], file: str, line: int) -> CsvRow:
        """Return the row of a line; without the call of a constructor, in half the time."""
        row = cls.__new__(cls)
        row.update(zip(columns, cells))  # noqa: B905 - the reader compares their numbers
        row._file, row._line = file, line  # noqa: SLF001 - of its own class
        return row

    @property
    def where(self) -> str:
        """Return the row's place."""
        return f"{self._file}:{self._line}" if self._line else self._file

    def __missing__(self, column: str) -> str:
        raise InputError("the file has no such column", where=self.where, key=column)

    def get_number(self, column: str, *, default: float | None = None) -> float:
        """Return a cell as a finite number, ``default`` if it is empty."""
        return self._parse(column, parse_number, default)

    def get_optional_number(self, column: str) -> float | None:
        """Return a cell as a finite number, None if it is empty."""
        return self.get_number(column) if self[column] else None

    def get_integer(self, column: str, *, default: int | None = None) -> int:
        """Return a cell as an integer, ``default`` if it is empty."""
        return self._parse(column, parse_integer, default)

    def get_boolean(self, column: str) -> bool:
        """Return True for ``yes`` or ``1``, False for ``no``, ``0`` or an empty cell."""
        return self._parse(column, parse_boolean)

    def get_words(self, column: str, separator: str | None = None) -> tuple[str, ...]:
        """Return the words of a cell, which spaces or ``separator`` separate."""
        return tuple(filter(None, self[column].split(separator)))

    def get_date(self, column: str) -> date:
        """Return a cell as a day (YYYY-MM-DD)."""
        return self._parse(column, parse_date)

    def get_choice(self, column: str, choices: tuple[Any, ...]) -> Any:
        """Return a cell that must be one of ``choices``: the values of a Literal type."""
        text = self[column]
        return text if text in choices else self._parse(column, partial(parse_choice, choices=choices))

    def build_cell_error(self, column: str, problem: object) -> InputError:
        """Return the error for a cell: its text and ``problem``, such as "is not a number"."""
        text = make_printable(self[column], 40)
        return InputError(f"{text!r} {problem}", where=self.where, key=column)

    def _parse(self, column: str, parse: Callable[[str], Cell], default: Cell | None = None) -> Cell:
        text = self[column]
        if not text and default is not None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise self.build_cell_error(column, error) from None


def parse_number(text: str) -> float:
    """Return a finite number; raise ValueError for another text, as the other functions for a cell do."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("is not a number")
    return number


def parse_integer(text: str) -> int:
    """Return an integer."""
    try:
        return int(text)
    except ValueError:
        raise ValueError("is not an integer") from None


def parse_boolean(text: str) -> bool:
    """Return True for ``yes`` or ``1``, False for ``no``, ``0`` or an empty text."""
    if text not in FLAGS:
        raise ValueError("is neither yes nor no")
    return FLAGS[text]


def parse_date(text: str) -> date:
    """Return a day (YYYY-MM-DD)."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError("is not a date") from None


def parse_choice(text: str, choices: tuple[Any, ...]) -> Any:
    """Return a text that is one of ``choices``."""
    if text not in choices:
        raise ValueError(f"is not one of {', '.join(map(str, choices))}")
    return text


def decode_csv(
    text: str,
    where: str,
    required_columns: Iterable[str] = (),
    limits: DocumentLimits = OPERATOR_FILE,
    min_columns: int = 1,
) -> list[CsvRow]:
    """Return the rows under a header line; a row of another length is an InputError with its line.

    The line in a row's place is the one that the row ends on.
    """
    if len(text) > limits.bytes:
        raise build_size_limit_error(len(text), where, limits)
    if "\x00" in text:
        raise InputError("contains a NUL character", where=where)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = next(reader, [])
        _check_header(columns, where, required_columns, min_columns)
        return list(_read_rows(reader, columns, where, limits))
    except csv.Error as error:
        raise InputError(
            f"is not CSV: {make_printable(error, 120)}", where=f"{where}:{reader.line_num}"
        ) from None


def _read_rows(reader: Any, columns: list[str], where: str, limits: DocumentLimits) -> Iterator[CsvRow]:
    width, most, build = len(columns), limits.values // max(len(columns), 1), CsvRow.build
    for count, cells in enumerate(filter(None, reader), 1):
        if len(cells) != width:
            place = f"{where}:{reader.line_num}"
            raise InputError(f"has {len(cells)} fields, the header has {width}", where=place)
        if count > most:
            raise InputError(f"contains more than {limits.values:,} values", where=where)
        yield build(columns, cells, where, reader.line_num)


def _check_header(columns: list[str], where: str, required: Iterable[str], min_columns: int) -> None:
    place = f"{where}:1"
    if len(columns) < min_columns:
        raise InputError(
            "is not CSV", where=place, remedy="the file needs a header line and comma-separated columns"
        )
    if repeated := next((name for name in columns if columns.count(name) > 1), None):
        raise InputError(
            f"has two columns {make_printable(repeated, 60)!r}",
            where=place,
            remedy="give each column a different name",
        )
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


def check_cell_safety(text: str, where: str, column: str) -> str:
    """Return a cell's text; refuse what a spreadsheet would run as a formula, and what a terminal would obey.

    A number may begin with a sign, and a lone mark stands for nothing.
    """
    printable_text = make_printable(text, 40)
    if make_printable(text, None) != text:
        raise InputError(
            f"{printable_text!r} contains a control character", where=where, key=column, remedy="remove it"
        )
    if len(text) > 1 and text.startswith(_FORMULA) and not _is_number(text):
        raise InputError(
            f"{printable_text!r} is a spreadsheet formula",
            where=where,
            key=column,
            remedy="give the value itself",
        )
    return text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
