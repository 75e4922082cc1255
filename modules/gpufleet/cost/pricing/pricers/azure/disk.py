"""Managed disks: those of their own, and those of machines."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    read_input,
    read_input_list,
    read_input_marker,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import standalone_part_context
from gpufleet.cost.pricing.pricers.required_input import size_gib_or_unpriced, unpriced_if_unreadable
from gpufleet.engine import StateResource, UnreadableValue

# Managed disks bill by tier, the smallest that fits the size (learn.microsoft.com, "Azure managed disk types").
TIERS = {4: 1, 8: 2, 16: 3, 32: 4, 64: 6, 128: 10, 256: 15, 512: 20, 1024: 30, 2048: 40, 4096: 50, 8192: 60}
TIERS |= {16384: 70, 32767: 80}
SMALLEST_HARD_DISK_GIB = Decimal(32)
FAMILIES = {
    "Premium_LRS": "premium-ssd-p",
    "StandardSSD_LRS": "standard-ssd-e",
    "Standard_LRS": "standard-hdd-s",
}
EXISTING_DISK = "Attach"  # the createOption of a disk that is a resource of its own


@dataclass(frozen=True)
class ManagedDiskInputs:
    """The size and type that a program gives a managed disk; ``tier`` is a higher performance tier (P50)."""

    size_gib: Number
    sku: Text
    tier: Text = None


@dataclass(frozen=True)
class AttachedDisks:
    """The managed disks of a machine by component name, and those that cannot be read."""

    disks: tuple[tuple[str, ManagedDiskInputs], ...]
    hidden: tuple[UnpricedComponent, ...] = ()


def parse_managed_disk_inputs(inputs: Any) -> ManagedDiskInputs:
    """Parse a disk resource."""
    return ManagedDiskInputs(
        read_input_number(inputs, "diskSizeGB"),
        read_input_text(inputs, "sku", "name"),
        read_input_text(inputs, "tier"),
    )


def parse_storage_profile(profile: Any) -> AttachedDisks:
    """Parse the storage profile of a machine.

    An ephemeral disk is part of the machine. An attached disk exists already and bills where it is declared.
    """
    hidden = unpriced_if_unreadable(read_input_marker(profile, "osDisk"), "its disks are", "disk:os")
    entries = [] if hidden else [("disk:os", read_input(profile, "osDisk") or {})]
    data_disks = enumerate(read_input_list(profile, "dataDisks"), start=1)
    entries += [(f"disk:{index}", disk) for index, disk in data_disks]
    marker = read_input_marker(profile, "dataDisks")
    return AttachedDisks(
        tuple(
            (
                name,
                ManagedDiskInputs(
                    read_input_number(disk, "diskSizeGB"),
                    read_input_text(disk, "managedDisk", "storageAccountType"),
                ),
            )
            for name, disk in entries
            if not isinstance(read_input(disk, "diffDiskSettings"), dict)
            and read_input_text(disk, "createOption") != EXISTING_DISK
        ),
        (*hidden, *unpriced_if_unreadable(marker, "its data disks are", "disk:1")),
    )


def price_managed_disk(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a disk of its own, billed for as long as it exists."""
    return [
        _disk_component(
            "disk", parse_managed_disk_inputs(resource.inputs), standalone_part_context(resource, graph)
        )
    ]


def attached_disk_components(attached: AttachedDisks, context: MachinePartContext) -> Components:
    """Return the disks of a machine. A deallocated machine keeps them, so they bill all month."""
    return [*attached.hidden, *(_disk_component(name, disk, context) for name, disk in attached.disks)]


def managed_disk_part(sku: str, size_gib: Decimal) -> str | None:
    """Return the catalogue's part: the smallest tier that fits the size; None for a type without a price."""
    return FAMILIES[sku] + managed_disk_tier_number(size_gib, sku) if sku in FAMILIES else None


def managed_disk_tier_number(size_gib: Decimal, sku: str = "") -> str:
    """Return the number of the smallest tier that fits a disk of this size; hard disks begin with 32 GiB."""
    if sku == "Standard_LRS":
        size_gib = max(size_gib, SMALLEST_HARD_DISK_GIB)
    return str(next((number for capacity, number in TIERS.items() if size_gib <= capacity), TIERS[32767]))


def _disk_component(
    name: str, disk: ManagedDiskInputs, context: MachinePartContext
) -> CostComponent | UnpricedComponent:
    size_gib = size_gib_or_unpriced(disk.size_gib)
    if isinstance(size_gib, UnpricedComponent):
        return UnpricedComponent(size_gib.reason, name)
    if not isinstance(disk.sku, str):
        reason = "not set" if disk.sku is None else MARKER_REASONS[disk.sku]
        return UnpricedComponent(f"disk type is {reason}", name)
    part = managed_disk_part(disk.sku, size_gib)
    if part is None:
        return UnpricedComponent(f"no price for disk type {disk.sku}", name)
    if isinstance(disk.tier, UnreadableValue):
        return UnpricedComponent(f"performance tier is {MARKER_REASONS[disk.tier]}", name)
    if disk.tier is not None:  # it bills as the disk of that tier (learn.microsoft.com, "Performance tiers")
        part = f"{FAMILIES[disk.sku][:-1]}{disk.tier.lower()}"
    return context.make_part_component(name, part)
