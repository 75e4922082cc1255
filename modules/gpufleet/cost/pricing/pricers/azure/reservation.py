"""Reserved capacity of Azure: bills its whole count around the clock, whether anything runs in it or not."""

from __future__ import annotations

from gpufleet.cost.pricing.component import ReservedCapacity
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.azure.machine import RESERVATION_GROUP
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.cost.pricing.pricers.reservation import reserve_machines


@pricer("azure-native:compute:CapacityReservation", "azure:compute/capacityReservation:CapacityReservation")
def price_capacity_reservation(reservation: Reader) -> Parts:
    """Yield a capacity reservation; machines target the group that it belongs to."""
    group = reservation.find_resource("capacityReservationGroupName", RESERVATION_GROUP)
    targets = (reservation.resource, group)
    capacity = ReservedCapacity(frozenset(target.urn for target in targets if target))
    with reservation.of("machine") as machine:
        size = machine.text("sku.name", "machine size")
        yield reserve_machines(machine, size, "sku.capacity", capacity)
