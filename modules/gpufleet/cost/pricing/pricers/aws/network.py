"""NAT gateways, load balancers and endpoints: by the hour, and by use where a usage file has it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Text,
    is_input_true,
    read_input,
    read_input_list,
    read_input_marker,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components
from gpufleet.cost.pricing.pricers.aws.location import standalone_part_context
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, ENDPOINT, LOAD_BALANCER, NAT, UNITS
from gpufleet.cost.pricing.pricers.required_input import unpriced_if_unreadable
from gpufleet.cost.pricing.pricers.traffic import traffic_components
from gpufleet.engine import StateResource, UnreadableValue


@dataclass(frozen=True)
class LoadBalancerInputs:
    """The inputs of a load balancer. One with elastic addresses bills those where they are declared."""

    type: Text
    is_internal: bool
    subnet_count: int
    hidden_subnets: UnreadableValue | None
    has_elastic_addresses: bool


@dataclass(frozen=True)
class VpcEndpointInputs:
    """The inputs of a VPC endpoint."""

    type: Text
    subnet_count: int
    hidden_subnets: UnreadableValue | None


def parse_load_balancer_inputs(inputs: Any) -> LoadBalancerInputs:
    """Parse a load balancer of any generation."""
    mappings = read_input_list(inputs, "subnetMappings")
    return LoadBalancerInputs(
        type=read_input_text(inputs, "loadBalancerType"),
        is_internal=is_input_true(inputs, "internal"),
        subnet_count=len(read_input_list(inputs, "subnets")) or len(mappings),
        hidden_subnets=read_input_marker(inputs, "subnets"),
        has_elastic_addresses=any(read_input(mapping, "allocationId") for mapping in mappings),
    )


def parse_vpc_endpoint_inputs(inputs: Any) -> VpcEndpointInputs:
    """Parse a VPC endpoint."""
    return VpcEndpointInputs(
        type=read_input_text(inputs, "vpcEndpointType"),
        subnet_count=len(read_input_list(inputs, "subnetIds")),
        hidden_subnets=read_input_marker(inputs, "subnetIds"),
    )


def price_nat_gateway(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a NAT gateway; its address bills where it is declared."""
    context = standalone_part_context(resource, graph)
    return [context.make_part_component("gateway", NAT), *traffic_components(resource, graph, context)]


def price_load_balancer(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an application, network or gateway load balancer, and its public addresses."""
    balancer = parse_load_balancer_inputs(resource.inputs)
    if isinstance(balancer.type, UnreadableValue):
        return [*unpriced_if_unreadable(balancer.type, "its kind is", "load_balancer")]
    return _balancer_components(resource, graph, balancer, balancer.type or "application")


def price_classic_load_balancer(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a classic load balancer."""
    return _balancer_components(resource, graph, parse_load_balancer_inputs(resource.inputs), "classic")


def price_vpc_endpoint(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an interface endpoint per subnet; gateway endpoints are free."""
    endpoint = parse_vpc_endpoint_inputs(resource.inputs)
    if endpoint.type in (None, "Gateway"):
        return []
    if isinstance(endpoint.type, UnreadableValue):
        return [*unpriced_if_unreadable(endpoint.type, "its kind is", "endpoint")]
    if endpoint.hidden_subnets:
        description = "how many subnets it is in is"
        return [*unpriced_if_unreadable(endpoint.hidden_subnets, description, "endpoint")]
    context = standalone_part_context(resource, graph)
    return [context.make_part_component("endpoint", ENDPOINT, Decimal(max(1, endpoint.subnet_count)))]


def _balancer_components(
    resource: StateResource, graph: ResourceGraph, balancer: LoadBalancerInputs, balancer_type: str
) -> Components:
    context = standalone_part_context(resource, graph)
    components: Components = [
        context.make_part_component("load_balancer", f"{LOAD_BALANCER}:{balancer_type}"),
        *traffic_components(resource, graph, context),
    ]
    is_public = balancer_type != "gateway" and not balancer.is_internal
    if is_public and balancer.subnet_count and not balancer.has_elastic_addresses:
        address_count = Decimal(balancer.subnet_count)  # one in each of its subnets
        components.append(context.make_part_component(ADDRESS, ADDRESS, address_count))
    elif is_public:
        description = "how many public addresses it takes is"
        components += unpriced_if_unreadable(balancer.hidden_subnets, description, ADDRESS)
    if units := graph.usage_of_resource(resource).load_balancer_units:
        components.append(context.make_part_component("units", f"{UNITS}:{balancer_type}", units))
    return components
