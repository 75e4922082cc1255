"""Large files of rows from outside, read line by line: CSV or JSON lines, plain or gzip. Memory stays constant."""

from __future__ import annotations

import csv
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gpufleet.boundary.csv_rows import CsvRow
from gpufleet.boundary.csv_stream import stream_csv_rows
from gpufleet.boundary.file_reader import describe_read_error
from gpufleet.boundary.json_value import decode_json
from gpufleet.boundary.limit import KIB, MIB, DocumentLimits
from gpufleet.boundary.text import decode_text, make_printable
from gpufleet.errors import InputError

GZIP_MARK = b"\x1f\x8b"
ROW = DocumentLimits(bytes=MIB, depth=16, values=20_000, characters=256 * KIB)


@dataclass(frozen=True)
class RowFileLimits:
    """Bounds of a file: bytes in total after decompression, bytes of one line."""

    bytes: int = 16 * KIB * MIB
    line_bytes: int = MIB


COST_EXPORT = RowFileLimits()


def read_csv_file_rows(path: Path, limits: RowFileLimits = COST_EXPORT) -> Iterator[CsvRow]:
    """Yield the rows of a CSV file under its header line."""
    header = read_csv_file_header(path, limits)
    yield from stream_csv_rows(_read_lines(path, limits), make_printable(path), header)


def read_csv_file_header(path: Path, limits: RowFileLimits = COST_EXPORT) -> list[str]:
    """Return the columns of a CSV file; a file without a header line is an InputError."""
    place = f"{make_printable(path)}:1"
    first = decode_text(next(_read_lines(path, limits), b""), place, ROW)
    try:
        header = next(csv.reader([first], strict=True), [])
    except csv.Error as error:
        raise InputError(f"is not CSV: {describe_read_error(error)}", where=place) from None
    if not header:
        raise InputError("has no header line", where=place, remedy="give CSV")
    return header


def read_json_file_rows(
    path: Path, limits: RowFileLimits = COST_EXPORT
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the object of each line that is not empty."""
    name = make_printable(path)
    for number, line in enumerate(_read_lines(path, limits), 1):
        if line.strip():
            place = f"{name}:{number}"
            value = decode_json(line, place, ROW)
            if not isinstance(value, dict):
                raise InputError("is not a JSON object", where=place)
            yield place, value


def read_file_mark(path: Path, length: int = 4) -> bytes:
    """Return the first bytes of a file, by which its form is recognised."""
    name = make_printable(path)
    try:
        with open_regular_file(path, name) as file:
            return file.read(length)
    except OSError as error:
        raise InputError(f"cannot be read: {describe_read_error(error)}", where=name) from None


def is_json_file(path: Path) -> bool:
    """Return whether a file begins with a JSON object."""
    return next(_read_lines(path, COST_EXPORT), b"").lstrip(b"\xef\xbb\xbf \t").startswith(b"{")


def _read_lines(path: Path, limits: RowFileLimits) -> Iterator[bytes]:
    """Yield the lines of a file; a longer line, a larger file and damaged gzip are an InputError."""
    name = make_printable(path)
    total = 0
    try:
        with open_regular_file(path, name) as file:
            is_gzip = file.read(2) == GZIP_MARK
            file.seek(0)
            lines = gzip.GzipFile(fileobj=file) if is_gzip else file
            while line := lines.readline(limits.line_bytes + 1):
                total += len(line)
                if len(line) > limits.line_bytes:
                    raise InputError(f"has a line of more than {limits.line_bytes:,} bytes", where=name)
                if total > limits.bytes:
                    raise InputError(f"has more than {limits.bytes:,} bytes", where=name)
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot be read: {describe_read_error(error)}", where=name) from None


def open_regular_file(path: Path, name: str) -> BinaryIO:
    """Open a file; a pipe or device, which may never end, is an InputError."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise InputError("is not a regular file", where=name, remedy="give a file")
    return file
