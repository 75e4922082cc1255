"""The constants of the memory model: read from a data file that says where each is from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from gpufleet.boundary import packaged_rows

_tried: list[dict[str, float]] = []  # values on trial while constants are fitted


def constants() -> dict[str, float]:
    """Return every constant by its name."""
    return _tried[-1] if _tried else _stored()


@contextmanager
def trial(**values: float) -> Iterator[None]:
    """Use other values for some constants while the block runs: for fitting them."""
    _tried.append(constants() | values)
    try:
        yield
    finally:
        _tried.pop()


@cache
def _stored() -> dict[str, float]:
    return {
        row["name"]: float(row["value"])
        for row in packaged_rows("gpufleet.sizing", "data/memory_constants.csv")
    }
