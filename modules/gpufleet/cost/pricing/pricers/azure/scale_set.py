"""Azure scale sets: machines of their profile, between the autoscale setting's bounds."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.azure.disk import list_attached_disks
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.azure.machine import (
    buy,
    describe_image,
    find_licensed_system,
    find_reservation_claim,
    find_sizes_by_rank,
    list_profile_addresses,
)
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.licence import list_licences
from gpufleet.cost.pricing.pricers.purchase_mix import PurchaseMix, split_machine_by_purchase
from gpufleet.cost.pricing.pricers.reader import Parts, Reader, Unpriced

AUTOSCALERS = ("azure-native:insights:AutoscaleSetting", "azure-native:monitor:AutoscaleSetting")
CLASSIC_AUTOSCALER = "azure:monitoring/autoscaleSetting:AutoscaleSetting"
PROFILE = "virtualMachineProfile"


@pricer(
    "azure-native:compute:VirtualMachineScaleSet",
    "azure:compute/orchestratedVirtualMachineScaleSet:OrchestratedVirtualMachineScaleSet",
)
def price_scale_set(scale_set: Reader) -> Parts:
    """Yield the machines of a scale set; a flexible one without a profile groups those that are declared elsewhere."""
    return _list_machines(scale_set) if scale_set.has(f"{PROFILE} or sku or skuName") else iter(())


@pricer(
    "azure:compute/linuxVirtualMachineScaleSet:LinuxVirtualMachineScaleSet",
    "azure:compute/windowsVirtualMachineScaleSet:WindowsVirtualMachineScaleSet",
)
def price_classic_scale_set(scale_set: Reader) -> Parts:
    """Yield the machines of a scale set of one system."""
    return _list_machines(scale_set)


def _list_machines(scale_set: Reader) -> Parts:
    """Yield a scale set at its capacity, between the bounds of its autoscale setting if it has one."""
    place = f"{PROFILE}." if scale_set.has(PROFILE) else ""
    profile = scale_set.inside(PROFILE) if place else scale_set
    machines = buy(profile).times(
        lambda: scale_set.resize(_find_declared_size(scale_set), "scale set capacity")
    )
    with machines.of("machine") as machine:
        sizes = find_sizes_by_rank(scale_set.of("machine"), "skuProfile.vmSizes")
        sizes = sizes or (scale_set.of("machine").text("sku.name or sku or skuName", "machine size"),)
        if component := machine.machines(sizes[0]):
            claimed = replace(component, items=sizes, claim=find_reservation_claim(scale_set, place))
            yield from split_machine_by_purchase(claimed, _find_purchase_mix(scale_set))
    yield from list_attached_disks(machines, describe_image(profile))
    yield from list_profile_addresses(machines)
    yield from list_licences(machines, find_licensed_system(profile))


def _find_purchase_mix(scale_set: Reader) -> PurchaseMix | None:
    if not scale_set.has("priorityMixPolicy"):
        return None
    return PurchaseMix(
        scale_set.find_number("priorityMixPolicy.baseRegularPriorityCount"),
        scale_set.find_number("priorityMixPolicy.regularPriorityPercentageAboveBase"),
    )


def _find_declared_size(scale_set: Reader) -> Range | None:
    """Return the capacity between the bounds of all profiles of the autoscale setting; None if one is not known."""
    capacity = scale_set.find_number("sku.capacity or instances")
    autoscalers = [
        *scale_set.find_referrers("targetResourceUri", *AUTOSCALERS),
        *scale_set.find_referrers("targetResourceId", CLASSIC_AUTOSCALER),
    ]
    if not autoscalers:
        return group_size_range(capacity, capacity, capacity)
    profiles: list[Range | None] = []
    with suppress(Unpriced):
        profiles += map(_find_profile_size, scale_set.reading(autoscalers[0]).entries("profiles"))
    sizes = [size for size in profiles if size]
    if not sizes or len(sizes) < len(profiles):
        return None
    expected = capacity if isinstance(capacity, Decimal) else sizes[0].expected
    return group_size_range(min(size.low for size in sizes), expected, max(size.high for size in sizes))


def _find_profile_size(profile: Reader) -> Range | None:
    minimum, default, maximum = (
        profile.find_number(f"capacity.{key}") for key in ("minimum", "default", "maximum")
    )
    return group_size_range(minimum, default, maximum)
