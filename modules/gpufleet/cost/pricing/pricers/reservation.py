"""What reservations of all clouds have: a count, and terms under which it bills around the clock."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.terms import Terms
from gpufleet.cost.inputs.values import MARKER_REASONS, Number
from gpufleet.cost.money import HOURS_PER_MONTH, Range
from gpufleet.cost.pricing.component import UnpricedComponent
from gpufleet.engine import StateResource, ValueMarker


def require_reserved_count(count: Number) -> Range | UnpricedComponent:
    """Return the known count of a reservation, or the component that has no price without it."""
    if isinstance(count, Decimal):
        return Range.of(count)
    reason = MARKER_REASONS[count] if isinstance(count, ValueMarker) else "not set"
    return UnpricedComponent(f"reserved count is {reason}", "machine")


def reservation_terms(resource: StateResource, graph: Graph) -> Terms:
    """Return the terms of a reservation: all hours of a month, and the term in years if the tags have one."""
    terms = graph.terms_of(resource)
    purchase = terms.purchase if terms.is_reserved else "reserved"
    return replace(terms, purchase=purchase, hours=HOURS_PER_MONTH)
