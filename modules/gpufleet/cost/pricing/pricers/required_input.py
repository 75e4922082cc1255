"""Inputs without which a component has no price: a text, a number, a disk's size, and any that is unknown or secret."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.inputs.reading import stand_in_for_absent
from gpufleet.cost.inputs.values import MARKER_REASONS, Number, Text
from gpufleet.cost.pricing.component import UnpricedComponent
from gpufleet.engine import UnreadableValue


def text_or_unpriced(text: Text, description: str, component: str = "machine") -> str | UnpricedComponent:
    """Return a known text, or the component that has no price without it."""
    if isinstance(text, str):
        return text
    if text is None and (stand_ins := stand_in_for_absent(description)):
        return stand_ins.text
    reason = MARKER_REASONS[text] if isinstance(text, UnreadableValue) else "not set"
    return UnpricedComponent(f"{description} is {reason}", component)


def number_or_unpriced(
    number: Number, description: str, component: str, default: Decimal | None = None
) -> Decimal | UnpricedComponent:
    """Return a known number or the default of an absent one, else the component that has no price without it."""
    if isinstance(number, Decimal):
        return number
    if isinstance(number, UnreadableValue):
        return UnpricedComponent(f"{description} is {MARKER_REASONS[number]}", component)
    if default is not None:
        return default
    if stand_ins := stand_in_for_absent(description):
        return stand_ins.number
    return UnpricedComponent(f"{description} is not set", component)


def size_gib_or_unpriced(size: Number) -> Decimal | UnpricedComponent:
    """Return a disk's size, or the reason why it is not known."""
    if isinstance(size, Decimal):
        return size
    return UnpricedComponent(
        f"size is {MARKER_REASONS[size]}" if isinstance(size, UnreadableValue) else "size is set by the image"
    )


def unpriced_if_unreadable(
    marker: UnreadableValue | None, description: str, component: str
) -> list[UnpricedComponent]:
    """Return the unpriced component of an input that is unknown or secret; empty without a marker."""
    return [UnpricedComponent(f"{description} {MARKER_REASONS[marker]}", component)] if marker else []
