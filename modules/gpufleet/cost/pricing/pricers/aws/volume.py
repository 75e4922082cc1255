"""EBS volumes: those of their own, and those that instances bring with them."""

from __future__ import annotations

from collections.abc import Iterator
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
from gpufleet.cost.pricing.pricers.aws.location import find_region
from gpufleet.cost.pricing.pricers.required_input import require_size_gib, unreadable_components
from gpufleet.engine import StateResource, ValueMarker

GP3_BASELINE = {"iops": Decimal(3000), "throughput": Decimal(125)}  # included in a gp3 volume of any size
IO2_FIRST_TIER_IOPS = Decimal(32000)  # io2 beyond these is billed at a lower rate (AWS's EBS pricing)
TYPES_WITHOUT_IOPS = ("gp2", "st1", "sc1", "standard")  # their speed comes with their size
DEFAULT_TYPE = "gp2"  # what EC2 makes of a volume without a type


@dataclass(frozen=True)
class VolumeInputs:
    """The size and speed that a program gives a volume."""

    size_gib: Number
    type: Text
    iops: Number
    throughput: Number


@dataclass(frozen=True)
class AttachedVolumes:
    """The volumes of an instance by component name, and those that cannot be read."""

    volumes: tuple[tuple[str, VolumeInputs], ...]
    hidden: tuple[UnpricedComponent, ...] = ()


def parse_volume(inputs: Any) -> VolumeInputs:
    """Parse a volume resource."""
    return VolumeInputs(
        size_gib=read_number(inputs, "size"),
        type=read_text(read_value(inputs, "type") or DEFAULT_TYPE),
        iops=read_number(inputs, "iops"),
        throughput=read_number(inputs, "throughput"),
    )


def parse_block_device(inputs: Any) -> VolumeInputs:
    """Parse a block device of an instance, a template or a launch configuration."""
    return VolumeInputs(
        size_gib=read_number(inputs, "volumeSize"),
        type=read_text(inputs, "volumeType"),
        iops=read_number(inputs, "iops"),
        throughput=read_number(inputs, "throughput"),
    )


def parse_attached_volumes(inputs: Any, root: Any) -> AttachedVolumes:
    """Parse the root device and the further devices of an instance or a launch configuration."""
    data_volumes = [parse_block_device(device) for device in read_list(inputs, "ebsBlockDevices")]
    marker = read_marker(inputs, "ebsBlockDevices")
    return AttachedVolumes(
        (
            ("disk:root", parse_block_device(root or {})),
            *((f"disk:{index}", volume) for index, volume in enumerate(data_volumes, start=1)),
        ),
        tuple(unreadable_components(marker, "its further volumes are", "disk:1")),
    )


def parse_mapped_volumes(inputs: Any) -> AttachedVolumes:
    """Parse the block device mappings of a launch template."""
    if hidden := unreadable_components(
        read_marker(inputs, "blockDeviceMappings"), "its volumes are", "disk:root"
    ):
        return AttachedVolumes((), tuple(hidden))
    mappings = read_list(inputs, "blockDeviceMappings")
    devices = [device for mapping in mappings if isinstance(device := read_value(mapping, "ebs"), dict)]
    volumes = [parse_block_device(device) for device in devices or [{}]]
    return AttachedVolumes(
        tuple((f"disk:{index}" if index else "disk:root", volume) for index, volume in enumerate(volumes))
    )


def price_volume(resource: StateResource, graph: Graph) -> Components:
    """Return a volume of its own, billed for as long as it exists."""
    context = PartContext("aws", find_region(resource, graph), graph.terms_of(resource).pool)
    return list(_volume_components("disk", parse_volume(resource.inputs), context))


def attached_volume_components(attached: AttachedVolumes, context: PartContext) -> Components:
    """Return the volumes of an instance. A stopped instance keeps them, so they bill all month."""
    components: Components = list(attached.hidden)
    for name, volume in attached.volumes:
        components += _volume_components(name, volume, context)
    return components


def _volume_components(
    name: str, volume: VolumeInputs, context: PartContext
) -> Iterator[CostComponent | UnpricedComponent]:
    size_gib = require_size_gib(volume.size_gib)
    if isinstance(size_gib, UnpricedComponent):
        yield UnpricedComponent(size_gib.reason, name)
    elif not isinstance(volume.type, str):
        yield UnpricedComponent("volume type is set by the image", name)
    else:
        yield context.part_component(name, f"ebs:{volume.type}", size_gib)
        if volume.type not in TYPES_WITHOUT_IOPS:
            yield from _provisioned_components(name, volume, volume.type, context)


def _provisioned_components(
    name: str, volume: VolumeInputs, volume_type: str, context: PartContext
) -> Iterator[CostComponent | UnpricedComponent]:
    """Yield the speed that is bought in addition to the size."""
    for unit, amount in (("iops", volume.iops), ("throughput", volume.throughput)):
        if isinstance(amount, ValueMarker):
            reason = f"provisioned {unit} is {MARKER_REASONS[amount]}"
            yield UnpricedComponent(reason, f"{name}:{unit}")
        elif amount is not None and volume_type == "io2" and amount > IO2_FIRST_TIER_IOPS:
            reason = f"no price for {unit} of io2 beyond {IO2_FIRST_TIER_IOPS}, which is by tier"
            yield UnpricedComponent(reason, f"{name}:{unit}")
        elif amount is not None:
            billed = amount - GP3_BASELINE[unit] if volume_type == "gp3" else amount
            if billed > 0:
                yield context.part_component(f"{name}:{unit}", f"ebs:{volume_type}:{unit}", billed)
