"""Racks and workstations of our own: the component carries what it costs, and where that figure is from."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.catalog import Price
from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.terms import Terms
from gpufleet.cost.inputs.values import MARKER_REASONS, read_number, read_text
from gpufleet.cost.pricing.component import Components, CostComponent, UnpricedComponent
from gpufleet.engine import Marker, Resource


def charges(resource: Resource, graph: Graph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Bill a rack or workstation at the hourly cost it declares."""
    facts = dict(resource.outputs) | dict(resource.inputs)
    rate = read_number(facts, "usd_per_hour")
    if not isinstance(rate, Decimal):
        why = MARKER_REASONS[rate] if isinstance(rate, Marker) else "not declared"
        return [UnpricedComponent(f"hourly cost is {why}", "machine")]
    said = read_text(facts, "usd_per_hour_source")
    source = said if isinstance(said, str) else "declared in the fleet"
    as_of = read_text(facts, "usd_per_hour_as_of")
    price = Price(
        float(rate), "rack", as_of if isinstance(as_of, str) else None, source, "medium", "onprem", "owned"
    )
    machine = read_text(facts, "machine")
    item = machine if isinstance(machine, str) else resource.name
    return [
        CostComponent(
            "machine", (item,), "onprem", "onprem", terms=Terms(pool=resource.name), declared_price=price
        )
    ]
