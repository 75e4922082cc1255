"""Managed disks, public addresses, and where an Azure resource is."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import MARKER_REASONS, read_list, read_text, read_value
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.common import size_gib, unsaid
from gpufleet.cost.pricing.region import azure_region
from gpufleet.engine import Marker, Resource

GROUP = "azure-native:resources:ResourceGroup"
# Managed disks bill by tier, the smallest that holds the size (learn.microsoft.com, "Azure managed disk types").
TIERS = {4: 1, 8: 2, 16: 3, 32: 4, 64: 6, 128: 10, 256: 15, 512: 20, 1024: 30, 2048: 40, 4096: 50, 8192: 60}
TIERS |= {16384: 70, 32767: 80}
FAMILIES = {
    "Premium_LRS": "premium-ssd-p",
    "StandardSSD_LRS": "standard-ssd-e",
    "Standard_LRS": "standard-hdd-s",
}


def region(resource: Resource, graph: Graph) -> str:
    """Return the location: the resource's own, else its resource group's."""
    group = graph.find_target(resource, ("resourceGroupName",), GROUP)
    provider = graph.find_provider(resource)
    said = [read_text(resource.inputs, "location"), read_text(resource.outputs, "location")]
    said += [read_text(holder.inputs, "location") for holder in (group, provider) if holder]
    return next((azure_region(name) for name in said if isinstance(name, str)), "")


def disk(resource: Resource, graph: Graph) -> Components:
    """Bill a disk of its own, for as long as it is there."""
    around = PartContext("azure", region(resource, graph), graph.terms_of(resource).pool)
    return [_disk("disk", resource.inputs, read_text(resource.inputs, "sku", "name"), around)]


def address(resource: Resource, graph: Graph) -> Components:
    """Bill a public address around the clock; an IPv6 one is free."""
    if read_text(resource.inputs, "publicIPAddressVersion") == "IPv6":
        return []
    return [
        PartContext("azure", region(resource, graph), graph.terms_of(resource).pool).part_component(
            "public_ipv4", "public_ipv4"
        )
    ]


def attached(profile: Any, around: PartContext) -> Iterator[CostComponent | UnpricedComponent]:
    """Bill the disks of a machine; a deallocated one keeps them, so they bill all month."""
    if hidden := unsaid(profile, "its disks are", "disk:os", "osDisk"):
        yield from hidden
        return
    yield from unsaid(profile, "its data disks are", "disk:1", "dataDisks")
    disks = [("disk:os", read_value(profile, "osDisk") or {})]
    disks += [(f"disk:{at}", each) for at, each in enumerate(read_list(profile, "dataDisks"), start=1)]
    for component, each in disks:
        if read_value(each, "diffDiskSettings") is None:  # an ephemeral disk is part of the machine
            yield _disk(component, each, read_text(each, "managedDisk", "storageAccountType"), around)


def addresses(profile: Any, around: PartContext) -> Iterator[CostComponent | UnpricedComponent]:
    """Bill the public addresses that a scale set gives its machines."""
    path = ("networkProfile", "networkInterfaceConfigurations")
    yield from unsaid(profile, "its network cards are", "public_ipv4", *path)
    cards = read_list(profile, "networkProfile", "networkInterfaceConfigurations")
    each = [found for card in cards for found in read_list(card, "ipConfigurations")]
    asked = sum(read_value(found, "publicIPAddressConfiguration") is not None for found in each)
    if asked:
        yield around.part_component("public_ipv4", "public_ipv4", Decimal(asked))


def _disk(
    component: str, inputs: Any, sku: str | Marker | None, around: PartContext
) -> CostComponent | UnpricedComponent:
    gib = size_gib(inputs, "diskSizeGB")
    if isinstance(gib, UnpricedComponent):
        return UnpricedComponent(gib.reason, component)
    if not isinstance(sku, str):
        return UnpricedComponent(
            f"disk type is {'not set' if sku is None else MARKER_REASONS[sku]}", component
        )
    if sku not in FAMILIES:
        return UnpricedComponent(f"no price for disk type {sku}", component)
    return around.part_component(component, FAMILIES[sku] + tier(gib))


def tier(gib: Decimal) -> str:
    """Return the number of the smallest tier that holds a disk of this size."""
    return str(next((number for holds, number in TIERS.items() if gib <= holds), TIERS[32767]))
