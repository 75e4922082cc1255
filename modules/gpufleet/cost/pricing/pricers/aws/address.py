"""Public IPv4 addresses: elastic ones, and those that machines get at launch."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import MARKER_REASONS
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.location import PlacementInputs, find_region, find_subnets
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.engine import StateResource, ValueMarker

ELASTIC_ADDRESSES = (
    ("aws:ec2/eip:Eip", "instance"),
    ("aws:ec2/eipAssociation:EipAssociation", "instanceId"),
)


def price_elastic_address(resource: StateResource, graph: Graph) -> Components:
    """Return an elastic address, billed around the clock: AWS charges for it attached or not."""
    context = PartContext("aws", find_region(resource, graph), graph.terms_of(resource).pool)
    return [context.part_component(ADDRESS, ADDRESS)]


def public_address_components(
    resource: StateResource,
    placement: PlacementInputs,
    graph: Graph,
    setting: bool | ValueMarker | None,
    context: PartContext,
) -> Components:
    """Return the public address of machines: by their own setting, else by their subnets'.

    An elastic address replaces it. Where only some of the subnets give one, the lower bound is none.
    """
    if any(graph.find_referrers(resource, (key,), type_) for type_, key in ELASTIC_ADDRESSES):
        return []
    if isinstance(setting, ValueMarker):
        return [UnpricedComponent(f"whether it has a public address is {MARKER_REASONS[setting]}", ADDRESS)]
    if setting is not None:
        return [context.part_component(ADDRESS, ADDRESS)] if setting else []
    gives_address = [subnet.gives_public_address for subnet in find_subnets(resource, placement, graph)]
    if not any(gives_address):
        return []
    address = context.part_component(ADDRESS, ADDRESS)
    if all(gives_address):
        return [address]
    return [replace(address, count=Range(ZERO, address.count.expected, address.count.high))]
