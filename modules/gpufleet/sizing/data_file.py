"""Rows of this room's data files, cached per process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from gpufleet.boundary import packaged_rows

Row = dict[str, str]
DATA_DIR = Path(__file__).parent / "data"


@cache
def load_rows(name: str) -> tuple[Row, ...]:
    """Return the rows of one file in ``data/``."""
    return tuple(packaged_rows("gpufleet.sizing", f"data/{name}"))


def parse_number(text: str) -> float | None:
    """Return a field as a number, None if it is empty."""
    return float(text) if text else None
