"""Rows of this room's data files, cached per process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from gpufleet.boundary import CsvRow, read_packaged_rows

Row = CsvRow
DATA_DIR = Path(__file__).parent / "data"


@cache
def load_sizing_rows(file_name: str) -> tuple[Row, ...]:
    """Return the rows of one file in ``data/``."""
    return tuple(read_packaged_rows("gpufleet.sizing", f"data/{file_name}"))
