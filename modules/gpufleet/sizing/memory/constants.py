"""The constants of the memory model: read from a data file that says where each is from."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files


@cache
def constants() -> dict[str, float]:
    """Return every constant by its name."""
    text = files("gpufleet.sizing").joinpath("data", "memory_constants.csv").read_text(encoding="utf-8")
    return {row["name"]: float(row["value"]) for row in csv.DictReader(text.splitlines())}
