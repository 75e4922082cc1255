"""Where an AWS resource is: its region, its zones, and the subnets that its machines are in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph, strip_api_version
from gpufleet.cost.inputs.values import (
    Text,
    list_if_known,
    read_input,
    read_reference,
    text_if_known,
)
from gpufleet.cost.pricing.component import MachinePartContext
from gpufleet.cost.pricing.pricers.reader import make_pricer_decorator
from gpufleet.cost.pricing.region import aws_region_of_zone, describe_hidden_region
from gpufleet.engine import StateResource, UnreadableValue

SUBNET = "aws:ec2/subnet:Subnet"
DEFAULT_SUBNET = "aws:ec2/defaultSubnet:DefaultSubnet"
SUBNETS = (SUBNET, DEFAULT_SUBNET)
ONE_SUBNET = "subnetId"
SUBNET_LISTS = ("vpcZoneIdentifiers", "subnetIds")


@dataclass(frozen=True)
class PlacementInputs:
    """The zones or subnets that an instance, a group or a template names.

    ``subnet_key`` is the input that refers to subnets, and ``subnet_count`` the length of its list. One that
    ``names_no_subnet``, also by no network interface, launches in the default subnets of the default VPC.
    """

    zone: str | None
    zones: frozenset[str]
    subnet_key: str | None
    subnet_count: int
    names_no_subnet: bool


@dataclass(frozen=True)
class SubnetInputs:
    """The inputs of a subnet."""

    zone: str | None
    gives_public_address: bool


def parse_subnet_inputs(inputs: Any, type_token: str = SUBNET) -> SubnetInputs:
    """Parse a subnet. A default one gives public addresses, unless an input denies them."""
    setting = read_input(inputs, "mapPublicIpOnLaunch")
    return SubnetInputs(
        zone=text_if_known(read_reference(inputs, "availabilityZone")),
        gives_public_address=type_token == DEFAULT_SUBNET if setting is None else setting is True,
    )


def parse_placement_inputs(inputs: Any) -> PlacementInputs:
    """Parse the placement of an instance, a group or a template."""
    zone = text_if_known(read_reference(inputs, "availabilityZone"))
    zone = (
        zone if zone is not None else text_if_known(read_reference(inputs, "placement", "availabilityZone"))
    )
    zones = list_if_known(read_input(inputs, "availabilityZones"))
    keys = (ONE_SUBNET, *SUBNET_LISTS)
    subnet_key = next((key for key in keys if read_input(inputs, key) is not None), None)
    return PlacementInputs(
        zone=zone,
        zones=frozenset(zones) if all(isinstance(each, str) for each in zones) else frozenset(),
        subnet_key=subnet_key,
        subnet_count=len(list_if_known(read_input(inputs, subnet_key))) if subnet_key in SUBNET_LISTS else 0,
        names_no_subnet=subnet_key is None and not _names_network_interface(inputs),
    )


def _names_network_interface(inputs: Any) -> bool:
    """Return whether interfaces, or the overrides and specifications of a fleet, decide about the subnet."""
    if read_input(inputs, "primaryNetworkInterface") or isinstance(
        read_input(inputs, "networkInterfaces"), UnreadableValue
    ):
        return True
    configurations = list_if_known(read_input(inputs, "launchTemplateConfigs"))
    entries = [
        *list_if_known(read_input(inputs, "networkInterfaces")),
        *list_if_known(read_input(inputs, "launchSpecifications")),
        *(
            each
            for configuration in configurations
            for each in list_if_known(read_input(configuration, "overrides"))
        ),
    ]
    return any(
        read_input(entry, key) is not None for entry in entries for key in (ONE_SUBNET, "networkInterfaceId")
    )


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
    provider = graph.find_provider_resource(resource)
    place = parse_region_or_zone(resource) or (parse_region_or_zone(provider) if provider else None)
    if isinstance(place, UnreadableValue):
        return describe_hidden_region(place)
    return aws_region_of_zone(place or graph.find_default_region("aws", resource))


def find_possible_zones(
    resource: StateResource, placement: PlacementInputs, graph: ResourceGraph
) -> frozenset[str]:
    """Return the zones that machines of a resource may be in; empty if they are not known."""
    if placement.zone is not None:
        return frozenset({placement.zone})
    if placement.zones:
        return placement.zones
    zones = [subnet.zone for subnet in find_subnets(resource, placement, graph)]
    known_zones = frozenset(zone for zone in zones if zone is not None)
    return frozenset() if None in zones else known_zones


def find_subnets(
    resource: StateResource, placement: PlacementInputs, graph: ResourceGraph
) -> list[SubnetInputs]:
    """Return the subnets that a resource is in; empty if one of them is not in this stack."""
    subnets = _subnet_resources(resource, placement, graph)
    return [parse_subnet_inputs(subnet.inputs, subnet.type) for subnet in subnets]


def _subnet_resources(
    resource: StateResource, placement: PlacementInputs, graph: ResourceGraph
) -> list[StateResource]:
    key = placement.subnet_key
    if key is None:
        return []
    if key == ONE_SUBNET:
        subnet = graph.find_referenced_resource(resource, (ONE_SUBNET,), *SUBNETS)
        return [subnet] if subnet else []
    indices = range(placement.subnet_count)
    targets = [graph.find_referenced_resource(resource, (key, index), *SUBNETS) for index in indices]
    subnets = [subnet for subnet in targets if subnet]
    if subnets and len(subnets) == len(targets):
        return subnets
    dependencies = map(graph.get_resource, resource.property_dependencies.get(key, ()))
    known_subnets = [each for each in dependencies if each and strip_api_version(each.type) in SUBNETS]
    return known_subnets if len(known_subnets) >= max(1, placement.subnet_count) else []


def standalone_part_context(resource: StateResource, graph: ResourceGraph) -> MachinePartContext:
    """Return where a part that is a resource of its own is priced."""
    return MachinePartContext("aws", find_region(resource, graph), graph.purchase_terms_of(resource).pool)


pricer = make_pricer_decorator("aws", find_region)
