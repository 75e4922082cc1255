"""Read values out of resource inputs, where any of them may be unknown or secret, and is then never used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from gpufleet.cost.money import exact
from gpufleet.engine import Marker

OBJECT, LIST = (dict, Mapping), (list, Sequence)  # what JSON gives first: an abstract class is slow to ask
MOST = Decimal(10) ** 9  # beyond it a count or a size is a mistake, and products outgrow exact money
WHY = {Marker.UNKNOWN: "not known until deployment", Marker.SECRET: "a secret"}


def dig(value: Any, *path: str | int) -> Any:
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
        is_list = isinstance(value, LIST) and not isinstance(value, str)
        return value[step] if is_list and len(value) > step else None
    return value.get(step) if isinstance(value, OBJECT) else None


def items(value: Any, *path: str | int) -> list[Any]:
    """Return the list at ``path``; of an absent or unknown one, nothing."""
    found = dig(value, *path)
    if isinstance(found, OBJECT):
        return [found]
    return list(found) if isinstance(found, LIST) and not isinstance(found, str) else []


def number(value: Any, *path: str | int) -> Decimal | Marker | None:
    """Return the number at ``path``; no number, a negative or an absurd one counts as unknown."""
    found = dig(value, *path)
    if found is None or isinstance(found, Marker):
        return found
    try:
        result = exact(found)
    except (InvalidOperation, ValueError):
        return Marker.UNKNOWN
    return result if result.is_finite() and 0 <= result <= MOST else Marker.UNKNOWN


def text(value: Any, *path: str | int) -> str | Marker | None:
    """Return the text at ``path``."""
    found = dig(value, *path)
    return found if found is None or isinstance(found, Marker) else str(found)
