"""What reservations of all clouds have: a count, and terms under which it bills around the clock."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.terms import PurchaseTerms
from gpufleet.cost.inputs.values import MARKER_REASONS, Number
from gpufleet.cost.money import HOURS_PER_MONTH, Range
from gpufleet.cost.pricing.component import CostComponent, ReservedCapacity, UnpricedComponent
from gpufleet.cost.pricing.pricers.reader import Reader
from gpufleet.engine import StateResource, UnreadableValue


def reserved_count_or_unpriced(count: Number) -> Range | UnpricedComponent:
    """Return the known count of a reservation, or the component that has no price without it."""
    if isinstance(count, Decimal):
        return Range.from_exact_value(count)
    reason = MARKER_REASONS[count] if isinstance(count, UnreadableValue) else "not set"
    return UnpricedComponent(f"reserved count is {reason}", "machine")


def reservation_terms(resource: StateResource, graph: ResourceGraph) -> PurchaseTerms:
    """Return the terms of a reservation: all hours of a month, and the term in years if the tags have one."""
    terms = graph.purchase_terms_of(resource)
    purchase = terms.purchase if terms.is_reserved else "reserved"
    return replace(terms, purchase=purchase, hours=HOURS_PER_MONTH)


def reserve_machines(
    machine: Reader, item: str, count_path: str, capacity: ReservedCapacity
) -> CostComponent | None:
    """Return the machines of a reservation, which bills all hours of a month, under the term that its tags have."""
    purchase = machine.terms.purchase if machine.terms.is_reserved else "reserved"
    reserved = replace(machine, terms=replace(machine.terms, purchase=purchase, hours=HOURS_PER_MONTH))
    count = Range.from_exact_value(machine.number(count_path, "reserved count"))
    part = reserved.machines(item, count)
    return part and replace(part, reserved_capacity=capacity)
