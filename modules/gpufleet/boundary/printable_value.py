"""Values made printable before a text is put together from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from gpufleet.boundary.text import make_printable

Value = TypeVar("Value")


def _parse_integer(text: str) -> str:
    return make_printable(text, None)


def make_values_printable(value: Value, convert: Callable[[str], str] = _parse_integer) -> Value:
    """Return a value with every string in it printable: dicts, lists, tuples, dataclasses and models are walked.

    For texts that are put together from many values: a line end in one of them could otherwise start a line of its
    own. A value without such strings comes back as it is.
    """
    return cast("Value", _printable_value(value, convert))


def _printable_value(value: Any, text: Callable[[str], str]) -> Any:
    if type(value) is str:
        return text(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [_printable_value(item, text) for item in value]
        if all(new is old or new == old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, Mapping):
        pairs = {_printable_value(key, text): _printable_value(item, text) for key, item in value.items()}
        return value if pairs == value else pairs
    names = _field_names(value)
    changed = {
        name: new
        for name in names
        if (new := _printable_value(getattr(value, name), text)) != getattr(value, name)
    }
    if not changed:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **changed)
    return value.model_copy(update=changed)


def _field_names(value: Any) -> list[str]:
    if is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in fields(value) if field.init]
    return list(type(value).model_fields) if hasattr(type(value), "model_fields") else []
