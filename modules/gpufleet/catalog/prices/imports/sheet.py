"""A file of records, whatever wraps them: lines of CSV, a JSON list, a zip of either."""

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
    check_cell,
    decode_csv_lines,
    decode_json,
    decode_text,
    printable,
    read_bytes,
)
from gpufleet.errors import InputError

# What Python's reader raises for archives that are cut off, encrypted or packed in a way it does not know.
BAD_ARCHIVE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, NotImplementedError, RuntimeError, KeyError,
    ValueError,
)  # fmt: skip


@dataclass(frozen=True)
class Origin:
    """What the caller knows about a file that the file itself may not say."""

    cloud: str = ""
    as_of: str = ""
    source: str = ""
    told: bool = False  # the source is the caller's word, not made of the file's name


@dataclass(frozen=True)
class Record:
    """One record and where it stands."""

    where: str
    values: dict[str, Any]

    def text(self, column: str) -> str:
        """Return a value as text, empty where there is none."""
        value = self.values.get(column)
        return "" if value is None else check_cell(str(value).strip(), self.where, column)

    def number(self, column: str) -> float | None:
        """Return an amount, None where there is none."""
        text = self.text(column)
        if not text or text.lower() == "nan":  # how pandas writes what is missing
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

    def needed(self, column: str) -> str:
        """Return a text that may not be missing."""
        value = self.text(column)
        if not value:
            raise InputError("is empty", where=self.where, key=column)
        return value


@dataclass(frozen=True)
class Sheet:
    """The records of one file, and the columns that they have."""

    name: str
    stem: str
    folder: str
    columns: frozenset[str]
    records: list[Record]

    def need(self, *columns: str) -> None:
        """Refuse a file that lacks a column."""
        missing = [name for name in columns if name not in self.columns]
        if missing:
            raise InputError(
                f"no column {missing[0]}",
                where=f"{self.name}:1",
                remedy=printable(f"it has {', '.join(sorted(self.columns))}"),
            )


def read_content(path: Path) -> bytes:
    """Return a file's content; ``-`` is standard input."""
    if str(path) != "-":
        return read_bytes(path, LARGE_DOCUMENT)
    content = sys.stdin.buffer.read(LARGE_DOCUMENT.bytes + 1)
    if len(content) > LARGE_DOCUMENT.bytes:
        raise InputError("is too large for a price catalogue", where=name_of(path))
    return content


def name_of(path: Path) -> str:
    """Return what messages call a file."""
    return "standard input" if str(path) == "-" else printable(path)


def sheets(path: Path, content: bytes) -> Iterator[Sheet]:
    """Yield what a file holds: one sheet, or those of a zip."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        for name, member in _zipped(path, content):
            yield _sheet(
                f"{name_of(path)}!{printable(name)}", Path(name).stem, Path(name).parent.name, member
            )
    else:
        yield _sheet(name_of(path), path.stem, path.resolve().parent.name, content)


def _zipped(path: Path, content: bytes) -> Iterator[tuple[str, bytes]]:
    where = name_of(path)
    with _archive_errors(where), zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [each for each in archive.infolist() if each.filename.endswith((".csv", ".json"))]
        # No member is read past the size that it declares.
        if sum(member.file_size for member in members) > LARGE_DOCUMENT.bytes:
            raise InputError("is too large for a price catalogue", where=where)
        for member in members:
            yield member.filename, archive.read(member)
    if not members:
        raise InputError("holds no .csv and no .json", where=where)


@contextmanager
def _archive_errors(where: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except BAD_ARCHIVE as error:
        raise InputError(f"is a damaged archive: {printable(error, 80)}", where=where) from None


def _sheet(name: str, stem: str, folder: str, content: bytes) -> Sheet:
    text = decode_text(content, name, LARGE_DOCUMENT)
    records = _json(name, text) if text.lstrip()[:1] in ("[", "{") else _csv(name, text)
    if not records:
        raise InputError("holds no rows", where=name)
    columns = frozenset(column for column in records[0].values if column)
    return Sheet(name, stem, folder, columns, records)


def _csv(name: str, text: str) -> list[Record]:
    rows = decode_csv_lines(text, name, limits=LARGE_DOCUMENT, least_columns=2)
    return [Record(f"{name}:{line}", row) for line, row in rows]


def _json(name: str, text: str) -> list[Record]:
    found = decode_json(text, name, LARGE_DOCUMENT)
    items = found.get("items", found.get("offers")) if isinstance(found, dict) else found
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InputError("is no list of offers", where=name)
    return [Record(f"{name}[{at}]", item) for at, item in enumerate(items)]
