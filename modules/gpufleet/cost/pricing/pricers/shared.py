"""What the pricers of all three clouds share: sizes, mixed purchases, components without a price."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.terms import Terms
from gpufleet.cost.inputs.values import MARKER_REASONS, Number, Text
from gpufleet.cost.money import HOURS_PER_MONTH, ZERO, Range
from gpufleet.cost.pricing.component import Components, CostComponent, UnpricedComponent
from gpufleet.engine import Marker, Resource

HUNDRED = Decimal(100)
# Parts of the names of images and platforms of systems that are licensed by the hour.
LICENCES = {"windows": "Windows", "rhel": "Red Hat", "red hat": "Red Hat", "suse": "SUSE", "sles": "SUSE"}
FREE_SYSTEMS = ("opensuse",)


def require_text(text: Text, description: str, component: str = "machine") -> str | UnpricedComponent:
    """Return a known text, or the component that has no price without it."""
    if isinstance(text, str):
        return text
    reason = MARKER_REASONS[text] if isinstance(text, Marker) else "not set"
    return UnpricedComponent(f"{description} is {reason}", component)


def require_count(count: Number) -> Range | UnpricedComponent:
    """Return the known count of a reservation, or the component that has no price without it."""
    if isinstance(count, Decimal):
        return Range.of(count)
    reason = MARKER_REASONS[count] if isinstance(count, Marker) else "not set"
    return UnpricedComponent(f"reserved count is {reason}", "machine")


def as_always_on_reserved(resource: Resource, graph: Graph) -> Terms:
    """Return reserved terms around the clock, with the commitment's term if the tags have one."""
    terms = graph.terms_of(resource)
    purchase = terms.purchase if terms.is_reserved else "reserved"
    return replace(terms, purchase=purchase, hours=HOURS_PER_MONTH)


def require_size_gib(size: Number) -> Decimal | UnpricedComponent:
    """Return a disk's size, or the reason why it is not known."""
    if isinstance(size, Decimal):
        return size
    return UnpricedComponent(
        f"size is {MARKER_REASONS[size]}" if isinstance(size, Marker) else "size is set by the image"
    )


def hidden_component(marker: Marker | None, description: str, component: str) -> list[UnpricedComponent]:
    """Return the unpriced component of inputs that cannot be read; empty if they can."""
    return [UnpricedComponent(f"{description} {MARKER_REASONS[marker]}", component)] if marker else []


def licence_components(system: str) -> list[UnpricedComponent]:
    """Return the licence of a system, by its platform's or image's name; empty for plain Linux."""
    name = system.lower()
    brand = next((brand for part, brand in LICENCES.items() if part in name), None)
    if brand is None or any(free in name for free in FREE_SYSTEMS):
        return []
    return [UnpricedComponent(f"its {brand} licence: prices here are those of Linux machines", "licence")]


def size_range(minimum: Number, desired: Number, maximum: Number) -> Range | None:
    """Return a group's size: desired between its bounds.

    A missing size is the lower bound, as in the clouds. An unknown one is expected at the upper bound, so
    that a budget errs on the safe side. Return None if that is not known either.
    """
    known_sizes = [size for size in (minimum, desired, maximum) if isinstance(size, Decimal)]
    if isinstance(desired, Decimal):
        expected = desired
    elif desired is None and isinstance(minimum, Decimal):
        expected = minimum
    elif isinstance(maximum, Decimal):
        expected = maximum
    else:
        return None
    if isinstance(maximum, Marker):
        return None
    low = ZERO if isinstance(minimum, Marker) else min(known_sizes)
    return Range.spanning(low, expected, max(known_sizes))


@dataclass(frozen=True)
class PurchaseMix:
    """How a group splits its machines: ``base`` on demand, then a percentage of those above it."""

    base: Number
    percent_on_demand: Number


def split_count(count: Range, base: Decimal, percent_on_demand: Decimal) -> tuple[Range, Range]:
    """Split a group's count into on-demand and spot: a base, then a percentage above it, rounded up."""

    def on_demand_count(total: Decimal) -> Decimal:
        above = max(ZERO, total - base) * percent_on_demand / HUNDRED
        return min(total, base + above.to_integral_value(ROUND_CEILING))

    on_demand = Range(*(on_demand_count(total) for total in (count.low, count.expected, count.high)))
    spot = (count.low - on_demand.low, count.expected - on_demand.expected, count.high - on_demand.high)
    return on_demand, Range(min(spot), spot[1], max(spot))


def mixed_components(machine: CostComponent, mix: PurchaseMix | None) -> Components:
    """Return a group's machines as one on-demand and one spot component, without an empty one."""
    if mix is None:
        return [machine]
    if isinstance(mix.base, Marker) or isinstance(mix.percent_on_demand, Marker):
        return [UnpricedComponent("the share of spot is not known until deployment", "machine")]
    percent = HUNDRED if mix.percent_on_demand is None else mix.percent_on_demand
    on_demand, spot = split_count(machine.count, mix.base or ZERO, percent)
    parts = [
        replace(
            machine,
            component="machine:on_demand",
            count=on_demand,
            terms=replace(machine.terms, purchase="on_demand"),
        ),
        replace(
            machine,
            component="machine:spot",
            count=spot,
            terms=replace(machine.terms, purchase="spot"),
            claim=None,
        ),
    ]
    return [part for part in parts if part.count.high > 0]
