"""Persistent disks and local SSDs: those of their own, and those of machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    number_if_known,
    read_input,
    read_input_list,
    read_input_marker,
    read_input_number,
    read_input_text,
    read_reference,
)
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.location import last_url_segment, standalone_part_context
from gpufleet.cost.pricing.pricers.required_input import size_gib_or_unpriced, unpriced_if_unreadable
from gpufleet.engine import StateResource, UnreadableValue

DEFAULT_TYPE = "pd-standard"  # what Compute Engine makes of a disk without a type
# What types bill besides their size, and how much of it is free (cloud.google.com/compute/disks-image-pricing).
BILLED_SPEED = {
    "pd-extreme": {"iops": Decimal(0)},
    "hyperdisk-extreme": {"iops": Decimal(0)},
    "hyperdisk-balanced": {"iops": Decimal(3000), "throughput": Decimal(140)},
    "hyperdisk-balanced-high-availability": {"iops": Decimal(3000), "throughput": Decimal(140)},
    "hyperdisk-throughput": {"throughput": Decimal(0)},
    "hyperdisk-ml": {"throughput": Decimal(0)},
}
LOCAL_SSD = "local-ssd"  # its name in the price list
LOCAL_SSD_GIB = Decimal(375)  # the one size of a local SSD
SCRATCH = "SCRATCH"  # the type of a template's local SSD
# The inputs of node pools that count local SSDs, and the interface of those (the provider's documentation).
NODE_DISK_INTERFACES: dict[tuple[str, ...], str] = {
    ("localSsdCount",): "SCSI",
    ("ephemeralStorageLocalSsdConfig", "localSsdCount"): "NVME",
    ("localNvmeSsdBlockConfig", "localSsdCount"): "NVME",
}
# Types that come with local SSDs: those whose price here includes them (gcosts-pricing.yml, which prices the
# entire machine), and those whose source says no-local-ssd (SkyPilot's catalogue; see the notes of
# catalog/data/prices.csv).
LOCAL_SSDS_IN_PRICE = ("a2-ultragpu-", "a3-highgpu-")
LOCAL_SSDS_NOT_IN_PRICE = ("a3-megagpu-", "a3-ultragpu-")


@dataclass(frozen=True)
class PersistentDiskInputs:
    """The size, type and speed that a program gives a persistent disk."""

    size_gib: Number
    type: Text
    iops: Number = None
    throughput: Number = None


@dataclass(frozen=True)
class AttachedDisks:
    """The persistent disks of a machine by component name, how many local SSDs it has, and what is hidden."""

    disks: tuple[tuple[str, PersistentDiskInputs], ...]
    local_ssd_count: int
    hidden: tuple[UnpricedComponent, ...] = ()


def parse_persistent_disk_inputs(inputs: Any) -> PersistentDiskInputs:
    """Parse a disk resource, or the parameters of a boot disk."""
    return PersistentDiskInputs(
        read_input_number(inputs, "size"),
        read_input_text(inputs, "type"),
        read_input_number(inputs, "provisionedIops"),
        read_input_number(inputs, "provisionedThroughput"),
    )


def parse_instance_disks(inputs: Any) -> AttachedDisks:
    """Parse the boot disk and the local SSDs of an instance; an existing disk bills where it is declared."""
    boot = parse_persistent_disk_inputs(read_input(inputs, "bootDisk", "initializeParams") or {})
    is_new = read_reference(inputs, "bootDisk", "source") is None or not isinstance(
        read_input(inputs, "bootDisk"), dict
    )
    return AttachedDisks(
        (("disk:boot", boot),) if is_new else (),
        len(read_input_list(inputs, "scratchDisks")),
        (
            *unpriced_if_unreadable(read_input_marker(inputs, "bootDisk"), "its boot disk is", "disk:boot"),
            *unpriced_if_unreadable(
                read_input_marker(inputs, "scratchDisks"), "its local disks are", "disk:local0"
            ),
        ),
    )


def parse_template_disks(inputs: Any) -> AttachedDisks:
    """Parse the disks of an instance template."""
    entries = read_input_list(inputs, "disks")
    is_scratch = [read_input_text(entry, "type") == SCRATCH for entry in entries]
    disks = (
        (
            f"disk:{index}" if index else "disk:boot",
            PersistentDiskInputs(
                read_input_number(entry, "diskSizeGb"),
                read_input_text(entry, "diskType"),
                read_input_number(entry, "provisionedIops"),
                read_input_number(entry, "provisionedThroughput"),
            ),
        )
        for index, entry in enumerate(entries)
        if not is_scratch[index]
    )
    hidden = unpriced_if_unreadable(read_input_marker(inputs, "disks"), "its disks are", "disk:boot")
    return AttachedDisks(tuple(disks), sum(is_scratch), tuple(hidden))


def parse_local_ssd_interfaces(inputs: Any) -> tuple[str, ...]:
    """Parse the interface of each local SSD of a machine, template, node pool or reservation, sorted."""
    entries = [*read_input_list(inputs, "scratchDisks"), *read_input_list(inputs, "localSsds")]
    entries += [
        entry for entry in read_input_list(inputs, "disks") if read_input_text(entry, "type") == SCRATCH
    ]
    interfaces = [str(read_input_text(entry, "interface") or "SCSI").upper() for entry in entries]
    for path, interface in NODE_DISK_INTERFACES.items():
        interfaces += [interface] * int(number_if_known(read_input_number(inputs, *path)) or 0)
    return tuple(sorted(interfaces))


def local_ssds_to_match(machine_type: str, interfaces: tuple[str, ...]) -> tuple[str, ...]:
    """Return the local SSDs that a reservation must match: none if they come with the machine type."""
    comes_with_disks = machine_type.startswith(LOCAL_SSDS_IN_PRICE + LOCAL_SSDS_NOT_IN_PRICE)
    return () if comes_with_disks else interfaces


def price_persistent_disk(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a disk of its own, billed for as long as it exists."""
    context = standalone_part_context(resource, graph)
    return [*persistent_disk_components("disk", parse_persistent_disk_inputs(resource.inputs), context)]


def price_regional_persistent_disk(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a disk that is replicated to two zones, which has a price of its own."""
    context = standalone_part_context(resource, graph)
    disk = parse_persistent_disk_inputs(resource.inputs)
    return [*persistent_disk_components("disk", disk, context, prefix="regional-")]


def attached_disk_components(
    attached: AttachedDisks, machine_type: Text, context: MachinePartContext
) -> Components:
    """Return the disks of a machine. A stopped machine keeps them, so they bill all month."""
    return [
        *attached.hidden,
        *local_ssd_components(machine_type, attached.local_ssd_count, context),
        *(each for name, disk in attached.disks for each in persistent_disk_components(name, disk, context)),
    ]


def local_ssd_components(machine_type: Text, count: int, context: MachinePartContext) -> Components:
    """Return local SSDs that are not in the machine's price; those that come with the type have no price here."""
    name = last_url_segment(machine_type) if isinstance(machine_type, str) else ""
    if name.startswith(LOCAL_SSDS_IN_PRICE):
        return []
    if not count and name.startswith(LOCAL_SSDS_NOT_IN_PRICE):
        reason = f"the local SSDs that {name} comes with are not in its price here"
        return [UnpricedComponent(reason, "disk:local0")]
    return [
        context.make_part_component(f"disk:local{index}", LOCAL_SSD, LOCAL_SSD_GIB) for index in range(count)
    ]


def persistent_disk_components(
    name: str, disk: PersistentDiskInputs, context: MachinePartContext, prefix: str = ""
) -> Iterator[CostComponent | UnpricedComponent]:
    """Yield a persistent disk by its type and size, and the speed that is bought in addition."""
    size_gib = size_gib_or_unpriced(disk.size_gib)
    if isinstance(size_gib, UnpricedComponent):
        yield UnpricedComponent(size_gib.reason, name)
    elif disk.type is not None and not isinstance(disk.type, str):
        yield UnpricedComponent("disk type is not known until deployment", name)
    else:
        disk_type = last_url_segment(disk.type) if disk.type else DEFAULT_TYPE
        yield context.make_part_component(name, prefix + disk_type, size_gib)
        yield from _speed_components(name, disk, disk_type, context)


def _speed_components(
    name: str, disk: PersistentDiskInputs, disk_type: str, context: MachinePartContext
) -> Iterator[CostComponent | UnpricedComponent]:
    """Yield the IOPS and the throughput of the types that bill them, beyond those that come with the disk."""
    for unit, amount in (("iops", disk.iops), ("throughput", disk.throughput)):
        included = BILLED_SPEED.get(disk_type, {}).get(unit)
        if included is None:
            continue
        component = f"{name}:{unit}"
        if amount is None and not included:
            yield UnpricedComponent(f"its {unit}, which bills, is chosen by Compute Engine", component)
        elif isinstance(amount, UnreadableValue):
            yield UnpricedComponent(f"provisioned {unit} is {MARKER_REASONS[amount]}", component)
        elif amount is not None and amount > included:
            yield context.make_part_component(component, f"{disk_type}:{unit}", amount - included)
