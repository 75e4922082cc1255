"""EBS volumes: those of their own, and those that instances bring with them."""

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
    read_input,
    read_input_list,
    read_input_marker,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.location import standalone_part_context
from gpufleet.cost.pricing.pricers.required_input import size_gib_or_unpriced, unpriced_if_unreadable
from gpufleet.engine import StateResource, UnreadableValue

GP3_BASELINE = {"iops": Decimal(3000), "throughput": Decimal(125)}  # included in a gp3 volume of any size
# The IOPS of one io2 volume that each tier ends with, the cheaper tiers last (AWS's EBS pricing).
IO2_TIERS = (("", Decimal(32000)), (":tier2", Decimal(64000)), (":tier3", Decimal("Infinity")))
TYPES_WITHOUT_IOPS = ("gp2", "st1", "sc1", "standard")  # their speed comes with their size
TYPES_THAT_REQUIRE_IOPS = ("io1", "io2")
DEFAULT_TYPE = "gp2"  # what EC2 makes of a volume without a type


@dataclass(frozen=True)
class EbsVolumeInputs:
    """The size and speed that a program gives a volume."""

    size_gib: Number
    type: Text
    iops: Number
    throughput: Number


@dataclass(frozen=True)
class AttachedVolumes:
    """The volumes of an instance by component name, and those that cannot be read."""

    volumes: tuple[tuple[str, EbsVolumeInputs], ...]
    hidden: tuple[UnpricedComponent, ...] = ()


def parse_ebs_volume_inputs(inputs: Any) -> EbsVolumeInputs:
    """Parse a volume resource."""
    return EbsVolumeInputs(
        size_gib=read_input_number(inputs, "size"),
        type=read_input_text(read_input(inputs, "type") or DEFAULT_TYPE),
        iops=read_input_number(inputs, "iops"),
        throughput=read_input_number(inputs, "throughput"),
    )


def parse_block_device_inputs(inputs: Any) -> EbsVolumeInputs:
    """Parse a block device of an instance, a template or a launch configuration."""
    return EbsVolumeInputs(
        size_gib=read_input_number(inputs, "volumeSize"),
        type=read_input_text(inputs, "volumeType"),
        iops=read_input_number(inputs, "iops"),
        throughput=read_input_number(inputs, "throughput"),
    )


def parse_attached_volumes(inputs: Any, root_device: Any) -> AttachedVolumes:
    """Parse the root device and the further devices of an instance or a launch configuration."""
    data_volumes = [
        parse_block_device_inputs(device) for device in read_input_list(inputs, "ebsBlockDevices")
    ]
    marker = read_input_marker(inputs, "ebsBlockDevices")
    return AttachedVolumes(
        (
            ("disk:root", parse_block_device_inputs(root_device or {})),
            *((f"disk:{index}", volume) for index, volume in enumerate(data_volumes, start=1)),
        ),
        tuple(unpriced_if_unreadable(marker, "its further volumes are", "disk:1")),
    )


def parse_block_device_mappings(inputs: Any) -> AttachedVolumes:
    """Parse the block device mappings of a launch template."""
    if hidden := unpriced_if_unreadable(
        read_input_marker(inputs, "blockDeviceMappings"), "its volumes are", "disk:root"
    ):
        return AttachedVolumes((), tuple(hidden))
    mappings = read_input_list(inputs, "blockDeviceMappings")
    devices = [device for mapping in mappings if (device := read_input(mapping, "ebs")) is not None]
    volumes = [parse_block_device_inputs(device) for device in devices or [{}]]
    return AttachedVolumes(
        tuple((f"disk:{index}" if index else "disk:root", volume) for index, volume in enumerate(volumes))
    )


def price_ebs_volume(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a volume of its own, billed for as long as it exists."""
    context, volume = standalone_part_context(resource, graph), parse_ebs_volume_inputs(resource.inputs)
    if (
        volume.size_gib is None
    ):  # the provider requires a size or a snapshot: a look-up has no answer without the cloud
        has_snapshot = read_input(resource.inputs, "snapshotId") is not None
        reason = "set by the snapshot" if has_snapshot else MARKER_REASONS[UnreadableValue.UNKNOWN]
        return [UnpricedComponent(f"size is {reason}", "disk")]
    return list(_volume_components("disk", volume, context))


def attached_volume_components(attached: AttachedVolumes, context: MachinePartContext) -> Components:
    """Return the volumes of an instance. A stopped instance keeps them, so they bill all month."""
    components: Components = list(attached.hidden)
    for name, volume in attached.volumes:
        components += _volume_components(name, volume, context)
    return components


def _volume_components(
    name: str, volume: EbsVolumeInputs, context: MachinePartContext
) -> Iterator[CostComponent | UnpricedComponent]:
    size_gib = size_gib_or_unpriced(volume.size_gib)
    if isinstance(size_gib, UnpricedComponent):
        yield UnpricedComponent(size_gib.reason, name)
    elif not isinstance(volume.type, str):
        yield UnpricedComponent("volume type is set by the image", name)
    else:
        yield context.make_part_component(name, f"ebs:{volume.type}", size_gib)
        if volume.type not in TYPES_WITHOUT_IOPS:
            yield from _provisioned_components(name, volume, volume.type, context)


def _provisioned_components(
    name: str, volume: EbsVolumeInputs, volume_type: str, context: MachinePartContext
) -> Iterator[CostComponent | UnpricedComponent]:
    """Yield the speed that is bought in addition to the size."""
    for unit, amount in (("iops", volume.iops), ("throughput", volume.throughput)):
        if isinstance(amount, UnreadableValue):
            reason = f"provisioned {unit} is {MARKER_REASONS[amount]}"
            yield UnpricedComponent(reason, f"{name}:{unit}")
        elif amount is None and unit == "iops" and volume_type in TYPES_THAT_REQUIRE_IOPS:
            yield UnpricedComponent("provisioned iops is not set", f"{name}:iops")
        elif amount is not None and volume_type == "io2" and unit == "iops":
            yield from _io2_iops_components(f"{name}:iops", amount, context)
        elif amount is not None:
            billed = amount - GP3_BASELINE[unit] if volume_type == "gp3" else amount
            if billed > 0:
                yield context.make_part_component(f"{name}:{unit}", f"ebs:{volume_type}:{unit}", billed)


def _io2_iops_components(
    name: str, iops: Decimal, context: MachinePartContext
) -> Iterator[CostComponent | UnpricedComponent]:
    """Yield the IOPS of an io2 volume in each tier that it reaches."""
    included = Decimal(0)
    for suffix, last in IO2_TIERS:
        if iops > included:
            size = min(iops, last) - included
            yield context.make_part_component(f"{name}{suffix}", f"ebs:io2:iops{suffix}", size)
        included = last
