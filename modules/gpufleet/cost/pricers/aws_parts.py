"""EBS volumes, elastic addresses, and where an AWS resource is."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from gpufleet.cost.graph import Graph
from gpufleet.cost.pricers.common import size_gib, unsaid
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.region import aws_region
from gpufleet.cost.values import MARKER_REASONS, read_list, read_number, read_text, read_value
from gpufleet.engine import Marker, Resource

BASELINE = {"iops": Decimal(3000), "throughput": Decimal(125)}  # what a gp3 volume of any size includes
ONE_RATE = Decimal(32000)  # io2 beyond these is billed at a lower rate (AWS's EBS pricing)
FREE_OF_IOPS = ("gp2", "st1", "sc1", "standard")  # their speed comes with their size


def region(resource: Resource, graph: Graph) -> str:
    """Return the region: the resource's own argument, its zone's, or its provider's."""
    provider = graph.find_provider(resource)
    said = (
        read_text(resource.inputs, "region"),
        read_text(resource.inputs, "availabilityZone"),
        read_text(resource.inputs, "availabilityZones", 0),
        read_text(resource.outputs, "region"),
        read_text(resource.outputs, "availabilityZone"),
        read_text(provider.inputs, "region") if provider else None,
    )
    return next((aws_region(name) for name in said if isinstance(name, str)), "")


def volume(resource: Resource, graph: Graph) -> Components:
    """Bill a volume of its own, for as long as it is there."""
    around = PartContext("aws", region(resource, graph), graph.terms_of(resource).pool)
    block = {**resource.inputs, "volumeSize": resource.inputs.get("size")}
    block["volumeType"] = resource.inputs.get("type") or "gp2"  # what EC2 makes where no type is asked for
    return list(_volume("disk", block, around))


def address(resource: Resource, graph: Graph) -> Components:
    """Bill an elastic address around the clock: AWS charges for it attached or not."""
    return [
        PartContext("aws", region(resource, graph), graph.terms_of(resource).pool).part_component(
            "public_ipv4", "public_ipv4"
        )
    ]


def attached(inputs: Any, around: PartContext) -> Iterator[CostComponent | UnpricedComponent]:
    """Bill the volumes that an instance brings with it; a stopped instance keeps them, so they bill all month."""
    yield from _volume("disk:root", read_value(inputs, "rootBlockDevice") or {}, around)
    yield from unsaid(inputs, "its further volumes are", "disk:1", "ebsBlockDevices")
    for at, device in enumerate(read_list(inputs, "ebsBlockDevices"), start=1):
        yield from _volume(f"disk:{at}", device, around)


def mapped(inputs: Any, around: PartContext) -> Iterator[CostComponent | UnpricedComponent]:
    """Bill the volumes of a launch template."""
    if hidden := unsaid(inputs, "its volumes are", "disk:root", "blockDeviceMappings"):
        yield from hidden
        return
    mappings = read_list(inputs, "blockDeviceMappings")
    devices = [ebs for device in mappings if isinstance(ebs := read_value(device, "ebs"), dict)]
    for at, device in enumerate(devices or [{}]):
        yield from _volume(f"disk:{at}" if at else "disk:root", device, around)


def _volume(component: str, inputs: Any, around: PartContext) -> Iterator[CostComponent | UnpricedComponent]:
    gib, kind = size_gib(inputs, "volumeSize"), read_text(inputs, "volumeType")
    if isinstance(gib, UnpricedComponent):
        yield UnpricedComponent(gib.reason, component)
    elif not isinstance(kind, str):
        yield UnpricedComponent("volume type is set by the image", component)
    else:
        yield around.part_component(component, f"ebs:{kind}", gib)
        yield from _provisioned(component, inputs, kind, around)


def _provisioned(
    component: str, inputs: Any, kind: str, around: PartContext
) -> Iterator[CostComponent | UnpricedComponent]:
    """Bill the speed that is bought beside the size."""
    if kind in FREE_OF_IOPS:
        return
    for extra, included in BASELINE.items():
        asked = read_number(inputs, extra)
        if isinstance(asked, Marker):
            yield UnpricedComponent(f"provisioned {extra} is {MARKER_REASONS[asked]}", f"{component}:{extra}")
        elif asked is not None and kind == "io2" and asked > ONE_RATE:
            yield UnpricedComponent(
                f"no price for {extra} of io2 beyond {ONE_RATE}, which is by tier", f"{component}:{extra}"
            )
        elif asked is not None and (bought := asked - included if kind == "gp3" else asked) > 0:
            yield around.part_component(f"{component}:{extra}", f"ebs:{kind}:{extra}", bought)
