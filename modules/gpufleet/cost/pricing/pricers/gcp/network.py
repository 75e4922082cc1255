"""Cloud NAT, load balancers' forwarding rules, and external addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import read_text
from gpufleet.cost.pricing.component import Components, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.location import find_region, part_context
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, LOAD_BALANCER
from gpufleet.cost.pricing.pricers.traffic import traffic_components
from gpufleet.engine import StateResource

GLOBAL = "global"


@dataclass(frozen=True)
class AddressInputs:
    """The inputs of a reserved address."""

    is_internal: bool
    is_ipv6: bool


def parse_address(inputs: Any) -> AddressInputs:
    """Parse a reserved address, regional or global."""
    return AddressInputs(
        is_internal=read_text(inputs, "addressType") == "INTERNAL",
        is_ipv6=read_text(inputs, "ipVersion") == "IPV6",
    )


def price_address(resource: StateResource, graph: Graph) -> Components:
    """Return a reserved external address, billed around the clock; internal ones are free."""
    if parse_address(resource.inputs).is_internal:
        return []
    return [part_context(resource, graph).part_component(ADDRESS, ADDRESS)]


def price_global_address(resource: StateResource, graph: Graph) -> Components:
    """Return a global external address; internal and IPv6 ones are free."""
    address = parse_address(resource.inputs)
    if address.is_internal or address.is_ipv6:
        return []
    return [PartContext("gcp", GLOBAL, graph.terms_of(resource).pool).part_component(ADDRESS, ADDRESS)]


def price_nat(resource: StateResource, graph: Graph) -> Components:
    """Return a Cloud NAT without a price: it bills by the machines that use it, which are not its inputs."""
    context = _network_context(resource, graph)
    reason = "Cloud NAT bills by the machines that use it and their traffic, which its inputs do not have"
    return [UnpricedComponent(reason, "gateway"), *traffic_components(resource, graph, context)]


def price_forwarding_rule(resource: StateResource, graph: Graph) -> Components:
    """Return a forwarding rule, by which a load balancer bills."""
    context = _network_context(resource, graph)
    rule = context.part_component("load_balancer", f"{LOAD_BALANCER}:forwarding_rule")
    return [rule, *traffic_components(resource, graph, context)]


def _network_context(resource: StateResource, graph: Graph) -> PartContext:
    return PartContext("gcp", find_region(resource, graph) or GLOBAL, graph.terms_of(resource).pool)
