"""Read typed values out of resource inputs, any of which may be unknown or secret (a ``Marker``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from gpufleet.cost.money import to_decimal
from gpufleet.engine import UnreadableValue

Text = str | UnreadableValue | None  # an input: known, unknown or secret, or absent
Number = Decimal | UnreadableValue | None
MAPPING_TYPES, LIST_TYPES = (dict, Mapping), (list, Sequence)  # the concrete type first: it is checked faster
MAX_NUMBER = Decimal(10) ** 9  # a greater count or size is a mistake, and products would not be exact
MARKER_REASONS = {UnreadableValue.UNKNOWN: "not known until deployment", UnreadableValue.SECRET: "a secret"}


def read_input(inputs: Any, *path: str | int) -> Any:
    """Return what is at ``path`` in nested inputs: a value, None if there is nothing, or a ``Marker``."""
    current = inputs
    for step in path:
        if type(current) is dict:  # nearly always: inputs are JSON
            current = current.get(step)
        elif current is None or isinstance(current, UnreadableValue):
            return current
        else:
            current = _step(current, step)
    return current


def _step(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        is_list = isinstance(value, LIST_TYPES) and not isinstance(value, str)
        return value[step] if is_list and len(value) > step else None
    return value.get(step) if isinstance(value, MAPPING_TYPES) else None


def read_input_marker(inputs: Any, *path: str | int) -> UnreadableValue | None:
    """Return the marker at ``path`` if the input is unknown or secret."""
    current = read_input(inputs, *path)
    return current if isinstance(current, UnreadableValue) else None


def is_input_true(inputs: Any, *path: str | int) -> bool:
    """Return whether the input at ``path`` is known to be true."""
    return read_input(inputs, *path) is True


def read_input_list(inputs: Any, *path: str | int) -> list[Any]:
    """Return the list at ``path``; empty if it is absent or unknown."""
    current = read_input(inputs, *path)
    if isinstance(current, MAPPING_TYPES):
        return [current]
    return list(current) if isinstance(current, LIST_TYPES) and not isinstance(current, str) else []


def read_input_number(inputs: Any, *path: str | int) -> Number:
    """Return the number at ``path``; a negative, absurd or malformed one counts as unknown."""
    current = read_input(inputs, *path)
    if current is None or isinstance(current, UnreadableValue):
        return current
    try:
        number = to_decimal(current)
    except (InvalidOperation, ValueError):
        return UnreadableValue.UNKNOWN
    return number if number.is_finite() and 0 <= number <= MAX_NUMBER else UnreadableValue.UNKNOWN


def read_input_text(inputs: Any, *path: str | int) -> Text:
    """Return the text at ``path``."""
    current = read_input(inputs, *path)
    return current if current is None or isinstance(current, UnreadableValue) else str(current)


def number_if_known(number: Number) -> Decimal | None:
    """Return a number if it is known."""
    return number if isinstance(number, Decimal) else None


def text_if_known(text: Text) -> str | None:
    """Return a text if it is known."""
    return text if isinstance(text, str) else None
