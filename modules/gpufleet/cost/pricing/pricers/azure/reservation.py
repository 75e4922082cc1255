"""Reserved capacity of Azure: bills its whole count around the clock, whether anything runs in it or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import Number, Text, read_number, read_text
from gpufleet.cost.pricing.component import Components, CostComponent, ReservedCapacity, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import find_region
from gpufleet.cost.pricing.pricers.azure.machine_inputs import RESERVATION_GROUP
from gpufleet.cost.pricing.pricers.required_input import require_text
from gpufleet.cost.pricing.pricers.reservation import require_reserved_count, reservation_terms
from gpufleet.engine import StateResource


@dataclass(frozen=True)
class ReservationInputs:
    """The inputs of a capacity reservation."""

    size: Text
    count: Number


def parse_reservation(inputs: Any) -> ReservationInputs:
    """Parse a capacity reservation."""
    return ReservationInputs(read_text(inputs, "sku", "name"), read_number(inputs, "sku", "capacity"))


def price_reservation(resource: StateResource, graph: Graph) -> Components:
    """Return a capacity reservation; machines target the group that it belongs to."""
    reservation = parse_reservation(resource.inputs)
    size = require_text(reservation.size, "machine size")
    count = require_reserved_count(reservation.count)
    if isinstance(size, UnpricedComponent) or isinstance(count, UnpricedComponent):
        return [each for each in (size, count) if isinstance(each, UnpricedComponent)]
    group = graph.find_target(resource, ("capacityReservationGroupName",), RESERVATION_GROUP)
    capacity = ReservedCapacity(frozenset(target.urn for target in (resource, group) if target))
    return [
        CostComponent(
            "machine",
            (size,),
            "azure",
            find_region(resource, graph),
            count,
            terms=reservation_terms(resource, graph),
            reserved_capacity=capacity,
        )
    ]
