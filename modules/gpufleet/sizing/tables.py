"""The data files of this room as rows, read once per process and never changed."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

Row = dict[str, str]
DATA = Path(__file__).parent / "data"


@cache
def rows(name: str) -> tuple[Row, ...]:
    """Return the rows of one data file."""
    with (DATA / name).open(encoding="utf-8", newline="") as lines:
        return tuple(csv.DictReader(lines))


def number(text: str) -> float | None:
    """Return a field's number, None where it is empty."""
    return float(text) if text else None
