"""Property values of the engine as plain JSON data and back; secrets stay marked on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.runtime.rpc import UNKNOWN

SECRET = "$secret"  # noqa: S105 - the mark, not a secret
PlainValues = dict[str, Any]

__all__ = [
    "SECRET",
    "UNKNOWN",
    "PlainValues",
    "has_unknown_value",
    "to_plain_values",
    "to_property_values",
    "unwrap_secrets",
]


def to_plain_values(values: Mapping[str, PropertyValue]) -> PlainValues:
    """Return JSON data; a secret becomes ``{"$secret": value}``, properties without a value are left out."""
    return {key: _plain(value) for key, value in values.items() if value.value is not None}


def to_property_values(values: PlainValues) -> dict[str, PropertyValue]:
    return {key: _property(value) for key, value in values.items()}


def unwrap_secrets(value: Any) -> Any:
    """Return ``value`` without its secret marks, as a cloud would see it."""
    if isinstance(value, dict):
        return (
            unwrap_secrets(value[SECRET])
            if SECRET in value
            else {key: unwrap_secrets(item) for key, item in value.items()}
        )
    return [unwrap_secrets(item) for item in value] if isinstance(value, list) else value


def has_unknown_value(value: Any) -> bool:
    """Return whether ``value`` contains an output that is unknown in a preview."""
    if isinstance(value, dict):
        return any(has_unknown_value(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown_value(item) for item in value)
    return bool(value == UNKNOWN)


def _plain(value: PropertyValue) -> Any:
    inner: Any = value.value
    if isinstance(inner, Mapping):
        inner = {key: _plain(item) for key, item in inner.items()}
    elif isinstance(inner, Sequence) and not isinstance(inner, str):
        inner = [_plain(item) for item in inner]
    elif isinstance(inner, float) and inner.is_integer():
        inner = int(inner)  # the wire knows only floats; "2.0" would leak into ids and addresses
    elif inner is not None and not isinstance(inner, (bool, float, str)):
        raise TypeError(f"simulated providers take plain data, not {type(inner).__name__}")
    return {SECRET: inner} if value.is_secret else inner


def _property(value: Any) -> PropertyValue:
    if isinstance(value, dict):
        if SECRET in value:
            return _property(value[SECRET]).with_secret(True)
        return PropertyValue({key: _property(item) for key, item in value.items()})
    if isinstance(value, list):
        return PropertyValue([_property(item) for item in value])
    return PropertyValue(float(value) if type(value) is int else value)
