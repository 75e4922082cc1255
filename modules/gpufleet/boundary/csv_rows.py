"""CSV from outside, decoded within limits."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from gpufleet.boundary.limit import OPERATOR_FILE, Limits
from gpufleet.boundary.text import printable, too_large
from gpufleet.errors import InputError


def decode_csv(
    text: str, where: str, required: Iterable[str] = (), limits: Limits = OPERATOR_FILE
) -> list[dict[str, str]]:
    """Return the rows under a header line, by column; a row of another length is an InputError with its line."""
    if len(text) > limits.bytes:
        raise too_large(len(text), where, limits)
    if "\x00" in text:
        raise InputError("holds a NUL character", where=where)
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey="", restval=None, strict=True)
    rows: list[dict[str, str]] = []
    try:
        missing = [name for name in required if name not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"has no column {missing[0]!r}", where=f"{where}:1")
        for row in reader:
            if "" in row or None in row.values():
                raise InputError("is not as long as the header", where=f"{where}:{reader.line_num}")
            rows.append(row)
    except csv.Error as error:
        raise InputError(f"is not CSV: {printable(error, 120)}", where=f"{where}:{reader.line_num}") from None
    if len(rows) * max(1, len(reader.fieldnames or ())) > limits.values:
        raise InputError(f"holds more than {limits.values:,} values", where=where)
    return rows
