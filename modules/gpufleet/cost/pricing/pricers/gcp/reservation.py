"""Reserved capacity of Google Cloud: bills its whole count around the clock, whether anything runs in it or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    is_input_true,
    read_input,
    read_input_list,
    read_input_number,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    MachinePartContext,
    ReservedCapacity,
    UnpricedComponent,
)
from gpufleet.cost.pricing.pricers.gcp.disk import local_ssd_components
from gpufleet.cost.pricing.pricers.gcp.location import find_region, last_url_segment
from gpufleet.cost.pricing.pricers.gcp.machine_inputs import (
    MachineInputs,
    machine_components,
    parse_machine_inputs,
    reservation_attributes,
)
from gpufleet.cost.pricing.pricers.reservation import reservation_terms, reserved_count_or_unpriced
from gpufleet.engine import StateResource


@dataclass(frozen=True)
class ReservationInputs:
    """The inputs of a reservation of machines."""

    count: Number
    zone: str | None
    is_open: bool
    machine: MachineInputs
    local_ssd_count: int


def parse_reservation_inputs(inputs: Any) -> ReservationInputs:
    """Parse a reservation of machines."""
    properties = read_input(inputs, "specificReservation", "instanceProperties")
    zone = text_if_known(read_input_text(inputs, "zone"))
    return ReservationInputs(
        count=read_input_number(inputs, "specificReservation", "count"),
        zone=None if zone is None else last_url_segment(zone),
        is_open=not is_input_true(inputs, "specificReservationRequired"),
        machine=parse_machine_inputs(properties),
        local_ssd_count=len(read_input_list(properties, "localSsds")),
    )


def price_reservation(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines of a reservation, their cards and their local SSDs."""
    reservation = parse_reservation_inputs(resource.inputs)
    count = reserved_count_or_unpriced(reservation.count)
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
    context = MachinePartContext("gcp", region, terms.pool, count)
    components = [
        *machine_components(machine, region, terms, count),
        *local_ssd_components(machine.machine_type, reservation.local_ssd_count, context),
    ]
    return [
        replace(each, reserved_capacity=capacity) if isinstance(each, CostComponent) else each
        for each in components
    ]
