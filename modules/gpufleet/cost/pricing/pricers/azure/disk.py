"""Managed disks: those of their own, and those of machines."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    read_list,
    read_marker,
    read_number,
    read_text,
    read_value,
)
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import part_context
from gpufleet.cost.pricing.pricers.required_input import require_size_gib, unreadable_components
from gpufleet.engine import StateResource

# Managed disks bill by tier, the smallest that fits the size (learn.microsoft.com, "Azure managed disk types").
TIERS = {4: 1, 8: 2, 16: 3, 32: 4, 64: 6, 128: 10, 256: 15, 512: 20, 1024: 30, 2048: 40, 4096: 50, 8192: 60}
TIERS |= {16384: 70, 32767: 80}
FAMILIES = {
    "Premium_LRS": "premium-ssd-p",
    "StandardSSD_LRS": "standard-ssd-e",
    "Standard_LRS": "standard-hdd-s",
}


@dataclass(frozen=True)
class DiskInputs:
    """The size and type that a program gives a managed disk."""

    size_gib: Number
    sku: Text


@dataclass(frozen=True)
class AttachedDisks:
    """The managed disks of a machine by component name, and those that cannot be read."""

    disks: tuple[tuple[str, DiskInputs], ...]
    hidden: tuple[UnpricedComponent, ...] = ()


def parse_disk(inputs: Any) -> DiskInputs:
    """Parse a disk resource."""
    return DiskInputs(read_number(inputs, "diskSizeGB"), read_text(inputs, "sku", "name"))


def parse_storage_profile(profile: Any) -> AttachedDisks:
    """Parse the storage profile of a machine. An ephemeral disk is part of the machine."""
    if hidden := unreadable_components(read_marker(profile, "osDisk"), "its disks are", "disk:os"):
        return AttachedDisks((), tuple(hidden))
    entries = [("disk:os", read_value(profile, "osDisk") or {})]
    data_disks = enumerate(read_list(profile, "dataDisks"), start=1)
    entries += [(f"disk:{index}", disk) for index, disk in data_disks]
    marker = read_marker(profile, "dataDisks")
    return AttachedDisks(
        tuple(
            (
                name,
                DiskInputs(
                    read_number(disk, "diskSizeGB"), read_text(disk, "managedDisk", "storageAccountType")
                ),
            )
            for name, disk in entries
            if read_value(disk, "diffDiskSettings") is None
        ),
        tuple(unreadable_components(marker, "its data disks are", "disk:1")),
    )


def price_disk(resource: StateResource, graph: Graph) -> Components:
    """Return a disk of its own, billed for as long as it exists."""
    return [_disk_component("disk", parse_disk(resource.inputs), part_context(resource, graph))]


def attached_disk_components(attached: AttachedDisks, context: PartContext) -> Components:
    """Return the disks of a machine. A deallocated machine keeps them, so they bill all month."""
    return [*attached.hidden, *(_disk_component(name, disk, context) for name, disk in attached.disks)]


def disk_tier(size_gib: Decimal) -> str:
    """Return the number of the smallest tier that fits a disk of this size."""
    return str(next((number for capacity, number in TIERS.items() if size_gib <= capacity), TIERS[32767]))


def _disk_component(name: str, disk: DiskInputs, context: PartContext) -> CostComponent | UnpricedComponent:
    size_gib = require_size_gib(disk.size_gib)
    if isinstance(size_gib, UnpricedComponent):
        return UnpricedComponent(size_gib.reason, name)
    if not isinstance(disk.sku, str):
        reason = "not set" if disk.sku is None else MARKER_REASONS[disk.sku]
        return UnpricedComponent(f"disk type is {reason}", name)
    if disk.sku not in FAMILIES:
        return UnpricedComponent(f"no price for disk type {disk.sku}", name)
    return context.part_component(name, FAMILIES[disk.sku] + disk_tier(size_gib))
