"""Reserved capacity of Google Cloud: bills its whole count around the clock, whether anything runs in it or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import (
    Number,
    is_true,
    known_text,
    read_list,
    read_number,
    read_text,
    read_value,
)
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    PartContext,
    ReservedCapacity,
    UnpricedComponent,
)
from gpufleet.cost.pricing.pricers.gcp.disk import local_ssd_components
from gpufleet.cost.pricing.pricers.gcp.location import find_region, last_segment
from gpufleet.cost.pricing.pricers.gcp.machine_inputs import (
    MachineInputs,
    machine_components,
    parse_machine,
    reservation_attributes,
)
from gpufleet.cost.pricing.pricers.reservation import require_reserved_count, reservation_terms
from gpufleet.engine import StateResource


@dataclass(frozen=True)
class ReservationInputs:
    """The inputs of a reservation of machines."""

    count: Number
    zone: str | None
    is_open: bool
    machine: MachineInputs
    local_ssd_count: int


def parse_reservation(inputs: Any) -> ReservationInputs:
    """Parse a reservation of machines."""
    properties = read_value(inputs, "specificReservation", "instanceProperties")
    zone = known_text(read_text(inputs, "zone"))
    return ReservationInputs(
        count=read_number(inputs, "specificReservation", "count"),
        zone=None if zone is None else last_segment(zone),
        is_open=not is_true(inputs, "specificReservationRequired"),
        machine=parse_machine(properties),
        local_ssd_count=len(read_list(properties, "localSsds")),
    )


def price_reservation(resource: StateResource, graph: Graph) -> Components:
    """Return the machines of a reservation, their cards and their local SSDs."""
    reservation = parse_reservation(resource.inputs)
    count = require_reserved_count(reservation.count)
    if isinstance(count, UnpricedComponent):
        return [count]
    machine = reservation.machine
    capacity = ReservedCapacity(
        frozenset({resource.urn}),
        accepts_open=reservation.is_open,
        zone=reservation.zone,
        attributes=reservation_attributes(machine),
    )
    region, terms = find_region(resource, graph), reservation_terms(resource, graph)
    context = PartContext("gcp", region, terms.pool, count)
    components = [
        *machine_components(machine, region, terms, count),
        *local_ssd_components(machine.machine_type, reservation.local_ssd_count, context),
    ]
    return [
        replace(each, reserved_capacity=capacity) if isinstance(each, CostComponent) else each
        for each in components
    ]
