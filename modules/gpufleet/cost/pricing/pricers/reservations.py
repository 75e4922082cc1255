"""Reserved capacity: bills its whole count around the clock, whether anything runs in it or not."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.terms import Terms
from gpufleet.cost.inputs.values import MARKER_REASONS, read_list, read_number, read_text, read_value
from gpufleet.cost.money import HOURS_PER_MONTH, Range
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    PartContext,
    ReservedCapacity,
    UnpricedComponent,
)
from gpufleet.cost.pricing.pricers import gcp_parts
from gpufleet.cost.pricing.pricers.gcp_instance import machine, make
from gpufleet.engine import Marker, Resource


def gcp(resource: Resource, graph: Graph) -> Components:
    """Bill a reservation of machines and of the cards attached to them."""
    held = read_value(resource.inputs, "specificReservation")
    count = _count(held, "count")
    if isinstance(count, UnpricedComponent):
        return [count]
    zone, properties = read_text(resource.inputs, "zone"), read_value(held, "instanceProperties")
    offer = ReservedCapacity(
        frozenset({resource.urn}),
        accepts_open=read_value(resource.inputs, "specificReservationRequired") is not True,
        zone=zone.rsplit("/", 1)[-1] if isinstance(zone, str) else None,
        attributes=make(properties),
    )
    where, said = gcp_parts.region(resource, graph), _terms(resource, graph)
    found = machine(properties, where, said, count)
    around = PartContext("gcp", where, said.pool, count)
    found += gcp_parts.scratch(properties, len(read_list(properties, "localSsds")), around)
    return [
        replace(item, reserved_capacity=offer) if isinstance(item, CostComponent) else item for item in found
    ]


def _terms(resource: Resource, graph: Graph) -> Terms:
    """Return reserved terms at all hours, with the commitment's term where the tags name one."""
    said = graph.terms_of(resource)
    purchase = said.purchase if said.reserved else "reserved"
    return replace(said, purchase=purchase, hours=HOURS_PER_MONTH)


def _said(inputs: Any, key: str, usual: str) -> str:
    found = read_text(inputs, key)
    return found if isinstance(found, str) else usual


def _count(inputs: Any, *path: str) -> Range | UnpricedComponent:
    found = read_number(inputs, *path)
    if isinstance(found, Decimal):
        return Range.of(found)
    return UnpricedComponent(
        f"reserved count is {MARKER_REASONS[found] if isinstance(found, Marker) else 'not set'}", "machine"
    )
