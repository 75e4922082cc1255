"""A file of records, whatever wraps them: lines of CSV, a JSON list, a zip of either."""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.errors import InputError

WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # what PowerShell 5 writes with `>`
ENOUGH = 512 * 1024 * 1024  # a price catalogue has some megabytes; more is something else


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
        return "" if value is None else str(value).strip()

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
            raise InputError(f"{text!r} is not a number", where=self.where, key=column)
        if amount < 0:
            raise InputError(f"{text} is negative", where=self.where, key=column, remedy="zero or more")
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
                remedy=f"it has {', '.join(sorted(self.columns))}",
            )


def read_bytes(path: Path) -> bytes:
    """Return a file's content; ``-`` is standard input."""
    try:
        content = sys.stdin.buffer.read(ENOUGH + 1) if str(path) == "-" else _file(path)
    except OSError as error:
        raise InputError(error.strerror or "cannot be read", where=str(path)) from None
    if len(content) > ENOUGH:
        raise InputError("is too large for a price catalogue", where=name_of(path))
    return content


def name_of(path: Path) -> str:
    """Return what messages call a file."""
    return "standard input" if str(path) == "-" else str(path)


def sheets(path: Path, content: bytes) -> Iterator[Sheet]:
    """Yield what a file holds: one sheet, or those of a zip."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        yield from _zipped(path, content)
    else:
        yield _sheet(name_of(path), path.stem, path.resolve().parent.name, content)


def _file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(ENOUGH + 1)


def _zipped(path: Path, content: bytes) -> Iterator[Sheet]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [name for name in archive.namelist() if name.endswith((".csv", ".json"))]
        if not names:
            raise InputError("holds no .csv and no .json", where=str(path))
        for name in names:
            if archive.getinfo(name).file_size > ENOUGH:
                raise InputError("is too large for a price catalogue", where=f"{path}!{name}")
            yield _sheet(f"{path}!{name}", Path(name).stem, Path(name).parent.name, archive.read(name))


def _sheet(name: str, stem: str, folder: str, content: bytes) -> Sheet:
    try:
        text = content.decode("utf-16" if content.startswith(WIDE) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"is no text (byte {error.start})", where=name, remedy="give a CSV or JSON file"
        ) from None
    if "\0" in text:
        raise InputError("is no text", where=name, remedy="give a CSV or JSON file")
    records = _json(name, text) if text.lstrip()[:1] in ("[", "{") else _csv(name, text)
    if not records:
        raise InputError("holds no rows", where=name)
    columns = frozenset(column for column in records[0].values if column)
    return Sheet(name, stem, folder, columns, records)


def _csv(name: str, text: str) -> list[Record]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    records = []
    try:
        if not reader.fieldnames or len(reader.fieldnames) < 2:  # noqa: PLR2004 - one column is no table
            raise InputError("is no CSV", where=f"{name}:1", remedy="it needs a header line and commas")
        for row in reader:
            if None in row:
                raise InputError("has more fields than the header", where=f"{name}:{reader.line_num}")
            records.append(Record(f"{name}:{reader.line_num}", row))
    except csv.Error as error:
        raise InputError(f"is no CSV: {error}", where=f"{name}:{reader.line_num}") from None
    return records


def _json(name: str, text: str) -> list[Record]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"is no JSON: {error.msg}", where=f"{name}:{error.lineno}") from None
    except RecursionError:
        raise InputError("is nested too deep for a price catalogue", where=name) from None
    items = found.get("items", found.get("offers")) if isinstance(found, dict) else found
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InputError("is no list of offers", where=name)
    return [Record(f"{name}[{at}]", item) for at, item in enumerate(items)]
