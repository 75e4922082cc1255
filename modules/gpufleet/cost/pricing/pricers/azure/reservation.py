"""Reserved capacity of Azure: bills its whole count around the clock, whether anything runs in it or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Number, Text, read_input_number, read_input_text
from gpufleet.cost.pricing.component import Components, CostComponent, ReservedCapacity, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import find_region
from gpufleet.cost.pricing.pricers.azure.machine_inputs import RESERVATION_GROUP
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.cost.pricing.pricers.reservation import reservation_terms, reserved_count_or_unpriced
from gpufleet.engine import StateResource


@dataclass(frozen=True)
class CapacityReservationInputs:
    """The inputs of a capacity reservation."""

    size: Text
    count: Number


def parse_capacity_reservation_inputs(inputs: Any) -> CapacityReservationInputs:
    """Parse a capacity reservation."""
    return CapacityReservationInputs(
        read_input_text(inputs, "sku", "name"), read_input_number(inputs, "sku", "capacity")
    )


def price_capacity_reservation(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a capacity reservation; machines target the group that it belongs to."""
    reservation = parse_capacity_reservation_inputs(resource.inputs)
    size = text_or_unpriced(reservation.size, "machine size")
    count = reserved_count_or_unpriced(reservation.count)
    if isinstance(size, UnpricedComponent) or isinstance(count, UnpricedComponent):
        return [each for each in (size, count) if isinstance(each, UnpricedComponent)]
    group = graph.find_referenced_resource(resource, ("capacityReservationGroupName",), RESERVATION_GROUP)
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
