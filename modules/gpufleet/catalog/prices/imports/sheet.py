"""Read records from CSV, a JSON list, or a zip of either."""

from __future__ import annotations

import io
import math
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.boundary import (
    LARGE_DOCUMENT,
    check_cell_safety,
    decode_csv,
    decode_json,
    decode_text,
    make_printable,
    read_bytes,
)
from gpufleet.errors import InputError

# Raised for archives that are truncated, encrypted or use an unknown compression.
ARCHIVE_ERRORS = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, NotImplementedError, RuntimeError, KeyError,
    ValueError,
)  # fmt: skip


@dataclass(frozen=True)
class PriceOrigin:
    """What the caller states about a file."""

    cloud: str = ""
    as_of: str = ""
    source: str = ""
    is_source_given: bool = False  # the caller gave the source; it was not derived from the file's name


@dataclass(frozen=True)
class SheetRecord:
    """One record and its place."""

    where: str
    values: dict[str, Any]

    def get_text(self, column: str) -> str:
        """Return a value as text, empty if missing."""
        value = self.values.get(column)
        return "" if value is None else check_cell_safety(str(value).strip(), self.where, column)

    def parse_number(self, column: str) -> float | None:
        """Return a non-negative amount, None if missing."""
        text = self.get_text(column)
        if not text or text.lower() == "nan":  # how pandas writes missing values
            return None
        try:
            amount = float(text)
        except ValueError:
            amount = math.nan
        if not math.isfinite(amount):
            raise InputError(f"{text[:40]!r} is not a number", where=self.where, key=column)
        if amount < 0:
            raise InputError(f"{text[:40]} is negative", where=self.where, key=column, remedy="zero or more")
        return amount

    def require_text(self, column: str) -> str:
        """Return a text; raise InputError if it is missing."""
        value = self.get_text(column)
        if not value:
            raise InputError("is empty", where=self.where, key=column)
        return value


@dataclass(frozen=True)
class PriceSheet:
    """The records and columns of one file."""

    name: str
    stem: str
    folder: str
    columns: frozenset[str]
    records: list[SheetRecord]

    def require_columns(self, *columns: str) -> None:
        """Raise InputError if a column is missing."""
        missing = [name for name in columns if name not in self.columns]
        if missing:
            raise InputError(
                f"no column {missing[0]}",
                where=f"{self.name}:1",
                remedy=make_printable(f"it has {', '.join(sorted(self.columns))}"),
            )


def read_file_or_stdin(path: Path) -> bytes:
    """Return a file's content; ``-`` is standard input."""
    if str(path) != "-":
        return read_bytes(path, LARGE_DOCUMENT)
    content = sys.stdin.buffer.read(LARGE_DOCUMENT.bytes + 1)
    if len(content) > LARGE_DOCUMENT.bytes:
        raise InputError("is too large for a price catalogue", where=format_input_file_name(path))
    return content


def format_input_file_name(path: Path) -> str:
    """Return the name of a file for messages."""
    return "standard input" if str(path) == "-" else make_printable(path)


def read_price_sheets(path: Path, content: bytes) -> Iterator[PriceSheet]:
    """Yield the sheets of a file: one, or those of a zip."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        for name, member in _read_zip_members(path, content):
            yield read_sheet(
                f"{format_input_file_name(path)}!{make_printable(name)}",
                Path(name).stem,
                Path(name).parent.name,
                member,
            )
    else:
        yield read_sheet(format_input_file_name(path), path.stem, path.resolve().parent.name, content)


def _read_zip_members(path: Path, content: bytes) -> Iterator[tuple[str, bytes]]:
    where = format_input_file_name(path)
    with archive_errors(where), zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith((".csv", ".json"))]
        # No member is read beyond its declared size.
        if sum(member.file_size for member in members) > LARGE_DOCUMENT.bytes:
            raise InputError("is too large for a price catalogue", where=where)
        for member in members:
            yield member.filename, archive.read(member)
    if not members:
        raise InputError("contains no .csv and no .json", where=where)


@contextmanager
def archive_errors(where: str) -> Iterator[None]:
    """Raise InputError for an archive that is damaged, encrypted or of an unknown kind."""
    try:
        yield
    except InputError:
        raise
    except ARCHIVE_ERRORS as error:
        raise InputError(f"is a damaged archive: {make_printable(error, 80)}", where=where) from None


def read_sheet(name: str, stem: str, folder: str, content: bytes) -> PriceSheet:
    """Return the records of one CSV or JSON document; ``name`` is its place in messages."""
    text = decode_text(content, name, LARGE_DOCUMENT)
    records = _read_json(name, text) if text.lstrip()[:1] in ("[", "{") else _read_csv(name, text)
    if not records:
        raise InputError("contains no rows", where=name)
    columns = frozenset(column for column in records[0].values if column)
    return PriceSheet(name, stem, folder, columns, records)


def _read_csv(name: str, text: str) -> list[SheetRecord]:
    rows = decode_csv(text, name, limits=LARGE_DOCUMENT, min_columns=2)
    return [SheetRecord(row.where, row) for row in rows]


def _read_json(name: str, text: str) -> list[SheetRecord]:
    document = decode_json(text, name, LARGE_DOCUMENT)
    items = document.get("items", document.get("offers")) if isinstance(document, dict) else document
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InputError("is not a list of offers", where=name)
    return [SheetRecord(f"{name}[{index}]", item) for index, item in enumerate(items)]
