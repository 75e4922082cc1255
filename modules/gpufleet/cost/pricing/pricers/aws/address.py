"""Public IPv4 addresses: elastic ones, and those that machines get at launch."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import MARKER_REASONS
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.location import (
    PlacementInputs,
    find_subnets,
    pricer,
)
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import StateResource, UnreadableValue

ELASTIC_ADDRESSES = (
    ("aws:ec2/eip:Eip", "instance"),
    ("aws:ec2/eipAssociation:EipAssociation", "instanceId"),
)
DEFAULT_SUBNET_NOTE = "default subnets give one"


@pricer
def price_elastic_ip(address: Reader) -> Parts:
    """Yield an elastic address: AWS charges for it attached or not."""
    yield address.of(ADDRESS).part(ADDRESS)


def public_address_components(
    resource: StateResource,
    placement: PlacementInputs,
    graph: ResourceGraph,
    has_public_address: bool | UnreadableValue | None,
    context: MachinePartContext,
    *,
    is_in_default_subnet: bool = False,
) -> Components:
    """Return the public address of machines: by their own setting, else by their subnets'.

    An elastic address replaces it. Where only some of the subnets give one, the lower bound is none. The default
    subnets of the default VPC give one, unless somebody has changed them (Auto Scaling API reference,
    ``AssociatePublicIpAddress``).
    """
    if any(graph.find_referring_resources(resource, (key,), type_) for type_, key in ELASTIC_ADDRESSES):
        return []
    if isinstance(has_public_address, UnreadableValue):
        return [
            UnpricedComponent(
                f"whether it has a public address is {MARKER_REASONS[has_public_address]}", ADDRESS
            )
        ]
    if has_public_address is not None:
        return [context.make_part_component(ADDRESS, ADDRESS)] if has_public_address else []
    if is_in_default_subnet:
        return [replace(context.make_part_component(ADDRESS, ADDRESS), note=DEFAULT_SUBNET_NOTE)]
    gives_address = [subnet.gives_public_address for subnet in find_subnets(resource, placement, graph)]
    if not any(gives_address):
        return []
    address = context.make_part_component(ADDRESS, ADDRESS)
    if all(gives_address):
        return [address]
    return [replace(address, count=Range(ZERO, address.count.expected, address.count.high))]
