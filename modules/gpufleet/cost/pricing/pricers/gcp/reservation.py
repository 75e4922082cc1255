"""Reserved capacity of Google Cloud: bills its whole count around the clock, whether anything runs in it or not."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from gpufleet.cost.inputs.values import text_if_known
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import CostComponent, ReservedCapacity
from gpufleet.cost.pricing.pricers.gcp.disk import list_local_ssds
from gpufleet.cost.pricing.pricers.gcp.location import last_url_segment, pricer
from gpufleet.cost.pricing.pricers.gcp.machine import (
    find_machine_type,
    find_reservation_attributes,
    list_machine,
)
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.cost.pricing.pricers.reservation import with_reservation_terms


@pricer("gcp:compute/reservation:Reservation")
def price_reservation(reservation: Reader) -> Parts:
    """Yield the machines of a reservation, their cards and their local SSDs."""
    machine = (
        with_reservation_terms(reservation)
        .inside("specificReservation.instanceProperties")
        .times(
            lambda: Range.from_exact_value(reservation.number("specificReservation.count", "reserved count"))
        )
    )
    zone = text_if_known(reservation.find_text("zone"))
    capacity = ReservedCapacity(
        frozenset({reservation.resource.urn}),
        accepts_open=reservation.find_flag("specificReservationRequired") in (None, False),
        zone=None if zone is None else last_url_segment(zone),
        attributes=find_reservation_attributes(machine),
    )
    local_ssds = list_local_ssds(machine, find_machine_type(machine), _count_local_ssds)
    for part in chain(list_machine(machine), local_ssds):
        yield replace(part, reserved_capacity=capacity) if isinstance(part, CostComponent) else part


def _count_local_ssds(machine: Reader) -> int:
    return len(machine.entries("localSsds", "its local disks are"))
