"""Read typed values out of resource inputs, any of which may be unknown or secret (a ``Marker``).

A value of another kind than the one that is asked for counts as unknown, as does everything inside it. Readers that
cannot return a marker take an unreadable list for an empty one and an unreadable flag for false. ``reading`` has what
they found, so that no bill gets smaller in silence.
"""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal, InvalidOperation
from typing import Any

from gpufleet.cost.inputs.reading import (
    MAPPING_TYPES,
    find_reading,
    is_list,
    step_into,
)
from gpufleet.cost.money import to_decimal
from gpufleet.engine import UnreadableValue

Text = str | UnreadableValue | None  # an input: known, unknown or secret, or absent
Number = Decimal | UnreadableValue | None
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
            current = step_into(current, step)
    return current


def read_input_marker(inputs: Any, *path: str | int) -> UnreadableValue | None:
    """Return the marker at ``path`` if the input is unknown or secret: the caller reports it."""
    current = read_input(inputs, *path)
    if not isinstance(current, UnreadableValue):
        return None
    if reading := find_reading():
        reading.mark_reported(inputs, path)
    return current


def read_list_marker(inputs: Any, *path: str | int) -> UnreadableValue | None:
    """Return the marker of a list; None while stand-ins have its entries."""
    reading = find_reading()
    marker = read_input_marker(inputs, *path)
    return None if reading and reading.stand_ins else marker


def is_input_true(inputs: Any, *path: str | int) -> bool:
    """Return whether the input at ``path`` is known to be true; an unreadable one is recorded."""
    current = read_input(inputs, *path)
    if current is None or isinstance(current, bool):
        return current is True
    if reading := find_reading():
        reading.add_ignored(inputs, path, _describe_unreadable(current, "neither true nor false"))
        return reading.stand_ins is not None and reading.stand_ins.flag
    return False


def read_input_list(inputs: Any, *path: str | int) -> list[Any]:
    """Return the list at ``path``; empty if it is absent, or unreadable, which is recorded."""
    current = read_input(inputs, *path)
    if current is None:
        return []
    if is_list(current) or isinstance(current, MAPPING_TYPES):
        return list_if_known(current)
    if reading := find_reading():
        reading.add_ignored(inputs, path, _describe_unreadable(current, "not a list"))
        return list(reading.stand_ins.entries) if reading.stand_ins else []
    return []


def read_input_number(inputs: Any, *path: str | int) -> Number:
    """Return the number at ``path``; a negative, absurd or malformed one counts as unknown."""
    number = parse_input_number(read_input(inputs, *path))
    reading = find_reading() if isinstance(number, UnreadableValue) else None
    if reading:
        reading.add(path)
        return reading.stand_ins.number if reading.stand_ins else number
    return number


def read_input_text(inputs: Any, *path: str | int) -> Text:
    """Return the text at ``path``; a list or mapping counts as unknown."""
    current = read_input(inputs, *path)
    if current is None or isinstance(current, str):  # nearly always
        return current
    text = read_reference(current)
    reading = find_reading() if isinstance(text, UnreadableValue) else None
    if reading:
        reading.add(path)
        return reading.stand_ins.text if reading.stand_ins else text
    return text


def read_input_choice(inputs: Any, choices: Collection[str], *path: str | int) -> Text:
    """Return the one of ``choices`` that is at ``path``, in their spelling; any other word counts as unknown."""
    text = read_reference(inputs, *path)
    if text is None:
        return None
    known = next((each for each in choices if isinstance(text, str) and each.lower() == text.lower()), None)
    if known is None and (reading := find_reading()):
        reading.add(path)
    return UnreadableValue.UNKNOWN if known is None else known


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
    """Return the text at ``path`` by which resources are found, which no stand-in can replace."""
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


def _describe_unreadable(value: Any, kind: str) -> str:
    return MARKER_REASONS[value] if isinstance(value, UnreadableValue) else kind


def number_if_known(number: Number) -> Decimal | None:
    """Return a number if it is known."""
    return number if isinstance(number, Decimal) else None


def text_if_known(text: Text) -> str | None:
    """Return a text if it is known."""
    return text if isinstance(text, str) else None
