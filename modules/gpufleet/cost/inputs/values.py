"""Read typed values out of resource inputs, any of which may be unknown or secret (a ``Marker``).

A value of another kind than the one that is asked for counts as unknown, as does everything inside it.
"""

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
            current = _step_into(current, step)
    return current


def _step_into(value: Any, step: str | int) -> Any:
    """Return what is in a container, None if there is nothing; in a value of another kind everything is unknown."""
    if isinstance(step, int) and is_list(value):
        return value[step] if len(value) > step else None
    return value.get(step) if isinstance(value, MAPPING_TYPES) else UnreadableValue.UNKNOWN


def is_list(value: Any) -> bool:
    """Return whether a value is a list."""
    return isinstance(value, LIST_TYPES) and not isinstance(value, str)


def read_input_number(inputs: Any, *path: str | int) -> Number:
    """Return the number at ``path``; a negative, absurd or malformed one counts as unknown."""
    return parse_input_number(read_input(inputs, *path))


def parse_input_flag(value: Any) -> bool | UnreadableValue | None:
    """Return whether an input is true, also as a text; a value that is neither true nor false counts as unknown."""
    if value is None or isinstance(value, (bool, UnreadableValue)):
        return value
    return {"true": True, "false": False}.get(str(value).lower(), UnreadableValue.UNKNOWN)


def parse_input_number(value: Any) -> Number:
    """Return the number that an input is; a negative, absurd or malformed one counts as unknown."""
    if value is None or isinstance(value, UnreadableValue):
        return value
    try:
        number = to_decimal(value)
    except (InvalidOperation, ValueError):
        return UnreadableValue.UNKNOWN
    return number if number.is_finite() and 0 <= number <= MAX_NUMBER else UnreadableValue.UNKNOWN


def read_reference(inputs: Any, *path: str | int) -> Text:
    """Return the text at ``path``; a list or mapping counts as unknown."""
    current = read_input(inputs, *path)
    if current is None or isinstance(current, (str, UnreadableValue)):
        return current
    is_container = isinstance(current, MAPPING_TYPES) or is_list(current)
    return UnreadableValue.UNKNOWN if is_container else str(current)


def list_if_known(value: Any) -> list[Any]:
    """Return a list, of one mapping that is there without its list too; empty for any other value."""
    if value is None:
        return []
    return [value] if isinstance(value, MAPPING_TYPES) else list(value) if is_list(value) else []


def number_if_known(number: Number) -> Decimal | None:
    """Return a number if it is known."""
    return number if isinstance(number, Decimal) else None


def text_if_known(text: Text) -> str | None:
    """Return a text if it is known."""
    return text if isinstance(text, str) else None
