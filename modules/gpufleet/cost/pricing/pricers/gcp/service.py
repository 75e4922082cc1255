"""What pricers of Google Cloud's services share: their place, numbers that must be known, and sizes that scale."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.money import ONE, Range
from gpufleet.cost.pricing.component import MachinePartContext
from gpufleet.cost.pricing.pricers.gcp.location import find_region
from gpufleet.engine import StateResource

GLOBAL = "global"  # the region of what has one price everywhere


def service_context(
    resource: StateResource, graph: ResourceGraph, region: str | None = None, count: Range = ONE
) -> MachinePartContext:
    """Return the context of a service's parts: in its own region unless one is given, billed all month."""
    place = find_region(resource, graph) if region is None else region
    terms = graph.purchase_terms_of(resource)
    return MachinePartContext("gcp", place.lower(), terms.pool, count, terms.billed_hours_per_month)


def exact_count(count: Decimal) -> Range:
    """Return a count without bounds."""
    return Range.from_exact_value(count)
