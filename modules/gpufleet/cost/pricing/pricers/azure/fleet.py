"""Azure compute fleets: a target of regular and of spot machines, of any of several sizes."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.azure.disk import list_attached_disks
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.azure.machine import (
    describe_image,
    find_sizes_by_rank,
    list_profile_addresses,
)
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

REGULAR, SPOT = "regularPriorityProfile", "spotPriorityProfile"


@pricer("azure-native:azurefleet:Fleet")
def price_compute_fleet(fleet: Reader) -> Parts:
    """Yield a fleet at the capacity of each priority; spot may fall to its minimum."""
    for name, priority in (("machine:on_demand", REGULAR), ("machine:spot", SPOT)):
        with fleet.of(name) as part:
            if part.has("vmAttributes"):
                raise part.refuse("its sizes are chosen by attributes: any that fits may be launched")
            count = _find_capacity(part, priority)
            sizes = find_sizes_by_rank(part, "vmSizesProfile")
            if not sizes:
                raise part.refuse("machine size is not set")
            max_price = part.find_number(f"{priority}.maxPricePerVM")  # -1 is none
            machine = part.bought(spot=priority == SPOT, max_price=max_price).machines(sizes[0], count)
            yield machine and replace(machine, items=sizes)
    profile = fleet.inside("computeProfile.baseVirtualMachineProfile").bought()
    machines = profile.times(lambda: _find_capacity(fleet, REGULAR) + _find_capacity(fleet, SPOT))
    yield from list_attached_disks(machines, describe_image(profile))
    yield from list_profile_addresses(machines)


def _find_capacity(fleet: Reader, priority: str) -> Range:
    capacity = fleet.number(f"{priority}.capacity", "its capacity", 0)
    minimum = fleet.find_number(f"{priority}.minCapacity")  # of spot alone
    return Range.spanning(minimum if isinstance(minimum, Decimal) else capacity, capacity, capacity)
