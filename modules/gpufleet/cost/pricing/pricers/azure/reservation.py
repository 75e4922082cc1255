"""Reserved capacity of Azure: bills its whole count around the clock, whether anything runs in it or not."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import ReservedCapacity
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.azure.machine import RESERVATION_GROUP
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.cost.pricing.pricers.reservation import reservation_terms


@pricer
def price_capacity_reservation(reservation: Reader) -> Parts:
    """Yield a capacity reservation; machines target the group that it belongs to."""
    graph, resource = reservation.graph, reservation.resource
    group = graph.find_referenced_resource(resource, ("capacityReservationGroupName",), RESERVATION_GROUP)
    capacity = ReservedCapacity(frozenset(target.urn for target in (resource, group) if target))
    with replace(reservation, terms=reservation_terms(resource, graph)).of("machine") as part:
        count = Range.from_exact_value(part.number("sku.capacity", "reserved count"))
        machine = part.machines(part.text("sku.name", "machine size"), count)
        yield machine and replace(machine, reserved_capacity=capacity)
