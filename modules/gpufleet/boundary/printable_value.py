"""Values made printable before a text is put together from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, cast

from gpufleet.boundary.text import make_printable

Value = TypeVar("Value")


def _make_line_printable(text: str) -> str:
    return make_printable(text, None)


def make_values_printable(value: Value, convert: Callable[[str], str] = _make_line_printable) -> Value:
    """Return a value with every string in it printable: dicts, lists, tuples, dataclasses and models are walked.

    For texts that are put together from many values: a line end in one of them could otherwise start a line of its
    own. A value without such strings comes back as it is.
    """
    return cast("Value", _printable_value(value, convert))


def _printable_value(value: Any, text: Callable[[str], str]) -> Any:
    if type(value) is str:
        return text(value)
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [_printable_value(item, text) for item in value]
        if all(new is old or new == old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, Mapping):
        pairs = {_printable_value(key, text): _printable_value(item, text) for key, item in value.items()}
        return value if pairs == value else pairs
    changed = {
        name: new
        for name in _field_names(type(value))  # type: ignore[arg-type]  # a class has a hash
        if (new := _printable_value(old := getattr(value, name), text)) is not old and new != old
    }
    if not changed:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **changed)
    return value.model_copy(update=changed)


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind) if field.init)
    return tuple(getattr(kind, "model_fields", ()))
