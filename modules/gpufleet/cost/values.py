"""Read values out of resource inputs, where any of them may be unknown or secret, and is then never used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from gpufleet.cost.money import to_decimal
from gpufleet.engine import Marker

MAPPING_TYPES, LIST_TYPES = (
    (dict, Mapping),
    (list, Sequence),
)  # what JSON gives first: an abstract class is slow to ask
MAX_NUMBER = Decimal(10) ** 9  # beyond it a count or a size is a mistake, and products outgrow exact money
MARKER_REASONS = {Marker.UNKNOWN: "not known until deployment", Marker.SECRET: "a secret"}


def read_value(value: Any, *path: str | int) -> Any:
    """Follow ``path`` into nested inputs: the value there, None where nothing is, or a ``Marker``."""
    found = value
    for step in path:
        if type(found) is dict:  # nearly always: inputs are JSON
            found = found.get(step)
        elif found is None or isinstance(found, Marker):
            return found
        else:
            found = _step(found, step)
    return found


def _step(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        is_list = isinstance(value, LIST_TYPES) and not isinstance(value, str)
        return value[step] if is_list and len(value) > step else None
    return value.get(step) if isinstance(value, MAPPING_TYPES) else None


def read_list(value: Any, *path: str | int) -> list[Any]:
    """Return the list at ``path``; of an absent or unknown one, nothing."""
    found = read_value(value, *path)
    if isinstance(found, MAPPING_TYPES):
        return [found]
    return list(found) if isinstance(found, LIST_TYPES) and not isinstance(found, str) else []


def read_number(value: Any, *path: str | int) -> Decimal | Marker | None:
    """Return the number at ``path``; no number, a negative or an absurd one counts as unknown."""
    found = read_value(value, *path)
    if found is None or isinstance(found, Marker):
        return found
    try:
        result = to_decimal(found)
    except (InvalidOperation, ValueError):
        return Marker.UNKNOWN
    return result if result.is_finite() and 0 <= result <= MAX_NUMBER else Marker.UNKNOWN


def read_text(value: Any, *path: str | int) -> str | Marker | None:
    """Return the text at ``path``."""
    found = read_value(value, *path)
    return found if found is None or isinstance(found, Marker) else str(found)
