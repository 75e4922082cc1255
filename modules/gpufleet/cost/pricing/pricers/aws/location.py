"""Where an AWS resource is: its region, its zones, and the subnets that its machines are in."""

from __future__ import annotations

from gpufleet.cost.inputs.graph import ResourceGraph, strip_api_version
from gpufleet.cost.inputs.values import Text, list_if_known, read_input, read_reference
from gpufleet.cost.pricing.pricers.reader import PricerRegistry, Reader, Unpriced
from gpufleet.cost.pricing.region import aws_region_of_zone, describe_hidden_region, is_aws_edge
from gpufleet.engine import StateResource, UnreadableValue

SUBNET = "aws:ec2/subnet:Subnet"
DEFAULT_SUBNET = "aws:ec2/defaultSubnet:DefaultSubnet"
SUBNETS = (SUBNET, DEFAULT_SUBNET)
# Machines whose subnet decides whether they run in a region or at its edge, which has prices of its own.
PLACED_BY_SUBNET = (
    "aws:autoscaling/group:Group",
    "aws:ec2/instance:Instance",
    "aws:ec2/spotInstanceRequest:SpotInstanceRequest",
    "aws:eks/nodeGroup:NodeGroup",
)
ONE_SUBNET = "subnetId"
SUBNET_LISTS = ("vpcZoneIdentifiers", "subnetIds")


def parse_region_or_zone(resource: StateResource) -> Text:
    """Parse the region, else a zone, of a resource or a provider; an unreadable region if neither is known.

    An unreadable zone alone hides nothing: it is in the region of the provider.
    """
    region = read_reference(resource.inputs, "region")
    zone = read_reference(resource.inputs, "availabilityZone")
    names = [region, zone, read_reference(resource.inputs, "availabilityZones", 0)]
    names += [read_reference(resource.outputs, key) for key in ("region", "availabilityZone")]
    known = names[:3] if isinstance(region, UnreadableValue) else names
    return next((name for name in known if isinstance(name, str)), region)


def find_region(resource: StateResource, graph: ResourceGraph) -> str:
    """Return the region: the resource's own, its zone's, its provider's or the default.

    Empty if nothing names one; a description, in which no price is, if it is not known until deployment or secret.
    """
    if strip_api_version(resource.type) in PLACED_BY_SUBNET and (
        edge := _find_edge_of_subnets(resource, graph)
    ):
        return edge
    provider = graph.find_provider_resource(resource)
    place = parse_region_or_zone(resource) or (parse_region_or_zone(provider) if provider else None)
    if isinstance(place, UnreadableValue):
        return describe_hidden_region(place)
    return aws_region_of_zone(place or graph.find_default_region("aws", resource))


def _find_edge_of_subnets(resource: StateResource, graph: ResourceGraph) -> str:
    """Return the local or Wavelength zone that all subnets of a machine are in; empty if they are not in one."""
    urns = [urn for key in (ONE_SUBNET, *SUBNET_LISTS) for urn in resource.property_dependencies.get(key, ())]
    subnets = [graph.get_resource(urn) for urn in urns]
    subnets.append(graph.find_referenced_resource(resource, (ONE_SUBNET,), *SUBNETS))
    zones = {
        aws_region_of_zone(zone)
        for each in subnets
        if each and strip_api_version(each.type) in SUBNETS
        for zone in [read_reference(each.inputs, "availabilityZone")]
        if isinstance(zone, str)
    }
    place = zones.pop() if len(zones) == 1 else ""
    return place if is_aws_edge(place) else ""


def find_possible_zones(owner: Reader) -> frozenset[str]:
    """Return the zones that machines may be in by the inputs of what launches them; empty if they are not known."""
    zone = owner.find_text("availabilityZone or placement.availabilityZone")
    if isinstance(zone, str):
        return frozenset({zone})
    zones = list_if_known(read_input(owner.inputs, "availabilityZones"))
    if not zones:
        zones = [subnet.find_text("availabilityZone") for subnet in find_subnets(owner)]
    return frozenset(zones) if all(isinstance(each, str) for each in zones) else frozenset()


def find_subnets(owner: Reader) -> list[Reader]:
    """Return the readers of the subnets that a resource is in; empty if one of them is not in this stack."""
    key = next((key for key in (ONE_SUBNET, *SUBNET_LISTS) if owner.has(key)), ONE_SUBNET)
    count = len(list_if_known(read_input(owner.inputs, key)))
    paths = [key] if key == ONE_SUBNET else [f"{key}.{index}" for index in range(count)]
    subnets = [owner.find_resource(path, *SUBNETS) for path in paths]
    if key != ONE_SUBNET and (not subnets or None in subnets):
        dependencies = map(owner.graph.get_resource, owner.source.property_dependencies.get(key, ()))
        subnets = [each for each in dependencies if each and strip_api_version(each.type) in SUBNETS]
        subnets = subnets if len(subnets) >= count else []
    return [owner.reading(subnet) for subnet in subnets if subnet]


def gives_public_address(subnet: Reader) -> bool:
    """Return whether machines in a subnet get a public address: in a default one unless an input denies it."""
    setting = subnet.find_flag("mapPublicIpOnLaunch")
    return subnet.source.type == DEFAULT_SUBNET if setting is None else setting is True


def is_in_default_subnet(owner: Reader) -> bool:
    """Return whether nothing names a subnet, so that machines launch in the default subnets of the default VPC.

    Network interfaces, and the overrides and specifications of a fleet, may name one too.
    """
    if any(owner.has(key) for key in (ONE_SUBNET, *SUBNET_LISTS, "primaryNetworkInterface")):
        return False
    try:
        configurations = owner.entries("launchTemplateConfigs")
        entries = [*owner.entries("networkInterfaces"), *owner.entries("launchSpecifications")]
        entries += [override for each in configurations for override in each.entries("overrides")]
    except Unpriced:
        return False
    return not any(entry.has(f"{ONE_SUBNET} or networkInterfaceId") for entry in entries)


pricer = PricerRegistry("aws", find_region)
