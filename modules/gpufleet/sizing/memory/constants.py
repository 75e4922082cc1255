"""The constants of the memory model, from memory_constants.csv with the source of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, ParamSpec, TypeVar

from gpufleet.boundary import read_packaged_rows

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_dependent: list[Any] = []  # functions with results by these constants
_overrides: list[dict[str, float]] = []  # overriding values while constants are fitted


def load_memory_constants() -> dict[str, float]:
    """Return every constant by its name."""
    return _overrides[-1] if _overrides else _load_stored()


@contextmanager
def override_memory_constants(**values: float) -> Iterator[None]:
    """Override some constants inside the block, to fit them."""
    _overrides.append(load_memory_constants() | values)
    _forget_results()
    try:
        yield
    finally:
        _overrides.pop()
        _forget_results()


def cache_with_constants(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function of hashable arguments that depends on the constants: results are kept while these stay."""
    cached = lru_cache(maxsize=4096)(function)
    _dependent.append(cached)
    return cached  # type: ignore[return-value]  # a wrapper that takes hashable arguments


def _forget_results() -> None:
    for cached in _dependent:
        cached.cache_clear()


@cache
def _load_stored() -> dict[str, float]:
    return {
        row["name"]: row.get_number("value")
        for row in read_packaged_rows("gpufleet.sizing", "data/memory_constants.csv")
    }
