"""What the pricers of all three clouds share: counts, groups that mix purchases, gaps."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

from gpufleet.cost.inputs.terms import Terms
from gpufleet.cost.inputs.values import MARKER_REASONS, read_number, read_text, read_value
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, CostComponent, UnpricedComponent
from gpufleet.engine import Marker

HUNDRED = Decimal(100)
# What the names of images and platforms tell of a system that is licensed by the hour.
LICENCES = {"windows": "Windows", "rhel": "Red Hat", "red hat": "Red Hat", "suse": "SUSE", "sles": "SUSE"}
FREE_SYSTEMS = ("opensuse",)


def named(inputs: Any, what: str, *path: str | int) -> str | UnpricedComponent:
    """Return the text at ``path``, or the gap that it leaves."""
    found = read_text(inputs, *path)
    if isinstance(found, str):
        return found
    return UnpricedComponent(
        f"{what} is {MARKER_REASONS[found]}" if isinstance(found, Marker) else f"{what} is not set", "machine"
    )


def unsaid(value: Any, what: str, component: str, *path: str | int) -> list[UnpricedComponent]:
    """Return the gap of a part of the inputs that nobody can look into; where it can be read, nothing."""
    found = read_value(value, *path)
    return (
        [UnpricedComponent(f"{what} {MARKER_REASONS[found]}", component)] if isinstance(found, Marker) else []
    )


def licence(system: str) -> list[UnpricedComponent]:
    """Name the licence of a system, told by its platform's or image's name, unless it is plain Linux."""
    name = system.lower()
    brand = next((brand for word, brand in LICENCES.items() if word in name), None)
    if brand is None or any(free in name for free in FREE_SYSTEMS):
        return []
    return [UnpricedComponent(f"its {brand} licence: prices here are those of Linux machines", "licence")]


def bounds(
    low: Decimal | Marker | None, wanted: Decimal | Marker | None, high: Decimal | Marker | None
) -> Range | None:
    """Return a group's size: desired between its bounds.

    A size left out is the lower bound, as the clouds do. An unknown one is expected at the upper bound, so
    that a budget errs on the safe side; with no bound at all there is no range, and None says so.
    """
    known = [value for value in (low, wanted, high) if isinstance(value, Decimal)]
    if isinstance(wanted, Decimal):
        expected = wanted
    elif wanted is None and isinstance(low, Decimal):
        expected = low
    elif isinstance(high, Decimal):
        expected = high
    else:
        return None
    if isinstance(high, Marker) or isinstance(low, Marker):
        return None if isinstance(high, Marker) else Range.spanning(ZERO, expected, max(known))
    return Range.spanning(min(known), expected, max(known))


def split(count: Range, base: Decimal, percent_on_demand: Decimal) -> tuple[Range, Range]:
    """Split a group's count into on-demand and spot: a base, then a percentage above it, rounded up."""

    def on_demand(total: Decimal) -> Decimal:
        above = max(ZERO, total - base) * percent_on_demand / HUNDRED
        return min(total, base + above.to_integral_value(ROUND_CEILING))

    usual = Range(on_demand(count.low), on_demand(count.expected), on_demand(count.high))
    rest = (count.low - usual.low, count.expected - usual.expected, count.high - usual.high)
    return usual, Range(min(rest), rest[1], max(rest))


def mixed(machine: CostComponent, base: Decimal, percent_on_demand: Decimal) -> Components:
    """Return a group's machines as one on-demand and one spot demand, leaving out an empty one."""
    usual, spot = split(machine.count, base, percent_on_demand)
    shares = [
        replace(machine, component="machine:on_demand", count=usual, terms=_as(machine.terms, "on_demand")),
        replace(machine, component="machine:spot", count=spot, terms=_as(machine.terms, "spot"), claim=None),
    ]
    return [share for share in shares if share.count.high > 0]


def _as(terms: Terms, purchase: str) -> Terms:
    return replace(terms, purchase=purchase)


def size_gib(inputs: Any, *path: str | int) -> Decimal | UnpricedComponent:
    """Return a disk's size, or the gap when the image decides it."""
    found = read_number(inputs, *path)
    if isinstance(found, Decimal):
        return found
    return UnpricedComponent(
        f"size is {MARKER_REASONS[found]}" if isinstance(found, Marker) else "size is set by the image"
    )
