"""The constants of the memory model, from memory_constants.csv with the source of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from gpufleet.boundary import read_packaged_rows

_overrides: list[dict[str, float]] = []  # overriding values while constants are fitted


def load_memory_constants() -> dict[str, float]:
    """Return every constant by its name."""
    return _overrides[-1] if _overrides else _load_stored()


@contextmanager
def override_memory_constants(**values: float) -> Iterator[None]:
    """Override some constants inside the block, to fit them."""
    _overrides.append(load_memory_constants() | values)
    try:
        yield
    finally:
        _overrides.pop()


@cache
def _load_stored() -> dict[str, float]:
    return {
        row["name"]: row.get_number("value")
        for row in read_packaged_rows("gpufleet.sizing", "data/memory_constants.csv")
    }
