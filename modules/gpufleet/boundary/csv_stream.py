"""A CSV document of any size, decoded row by row within limits: memory does not grow with the document."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from gpufleet.boundary.csv_rows import CsvRow
from gpufleet.boundary.limit import MIB
from gpufleet.boundary.text import make_printable
from gpufleet.errors import InputError


@dataclass(frozen=True)
class CsvStreamLimits:
    """Bounds of one streamed document: rows in total, characters of one line, columns."""

    rows: int = 20_000_000
    line_characters: int = MIB
    columns: int = 1_000


PRICE_LIST_STREAM = CsvStreamLimits()
"""A cloud's price list: Amazon's largest has about two million rows of 90 columns."""


def stream_csv_rows(
    chunks: Iterable[bytes],
    where: str,
    columns: Iterable[str],
    *,
    preamble_lines: int = 0,
    limits: CsvStreamLimits = PRICE_LIST_STREAM,
) -> Iterator[CsvRow]:
    """Yield the chosen columns of each row under a header line, which follows ``preamble_lines`` other lines.

    A missing column and a row of another length are an InputError with its line.
    """
    reader = csv.reader(_iterate_lines(chunks, where, limits), strict=True)
    chosen = tuple(columns)
    try:
        header = next(islice(reader, preamble_lines, None), [])
        positions = _find_positions(header, chosen, f"{where}:{preamble_lines + 1}", limits)
        for count, cells in enumerate(reader):
            if count >= limits.rows:
                raise InputError(f"contains more than {limits.rows:,} rows", where=where)
            if not cells:
                continue
            place = f"{where}:{reader.line_num}"
            if len(cells) != len(header):
                raise InputError(f"has {len(cells)} fields, the header has {len(header)}", where=place)
            yield CsvRow([(name, cells[position]) for name, position in positions], place)
    except csv.Error as error:
        raise InputError(
            f"is not CSV: {make_printable(error, 120)}", where=f"{where}:{reader.line_num}"
        ) from None


def _find_positions(
    header: list[str], columns: tuple[str, ...], place: str, limits: CsvStreamLimits
) -> list[tuple[str, int]]:
    if len(header) > limits.columns:
        raise InputError(f"has more than {limits.columns:,} columns", where=place)
    for name in columns:
        if header.count(name) != 1:
            problem = "has two columns" if name in header else "has no column"
            raise InputError(f"{problem} {name!r}", where=place)
    return [(name, header.index(name)) for name in columns]


def _iterate_lines(chunks: Iterable[bytes], where: str, limits: CsvStreamLimits) -> Iterator[str]:
    """Yield the lines with their ends; raise InputError for a line over the limit, bad UTF-8 or a NUL."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    rest = ""
    try:
        for chunk in chunks:
            text = rest + decoder.decode(chunk)
            lines = text.split("\n")
            rest = lines.pop()
            _check_length(rest, where, limits)
            for line in lines:
                yield _check_line(line, where, limits) + "\n"
        rest += decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", where=where) from None
    if rest:
        yield _check_line(rest, where, limits)


def _check_line(line: str, where: str, limits: CsvStreamLimits) -> str:
    _check_length(line, where, limits)
    if "\x00" in line:
        raise InputError("contains a NUL character", where=where)
    return line


def _check_length(line: str, where: str, limits: CsvStreamLimits) -> None:
    if len(line) > limits.line_characters:
        raise InputError(f"has a line of more than {limits.line_characters:,} characters", where=where)
