"""NAT gateways, load balancers and endpoints: by the hour, and by use where a usage file tells it."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.graph import Graph
from gpufleet.cost.pricers import aws_parts, traffic
from gpufleet.cost.pricers.common import unsaid
from gpufleet.cost.pricers.part_names import ADDRESS, ENDPOINT, LOAD_BALANCER, NAT, UNITS
from gpufleet.cost.pricing.component import Components, PartContext
from gpufleet.cost.values import read_list, read_text, read_value
from gpufleet.engine import Resource


def nat(resource: Resource, graph: Graph) -> Components:
    """Bill a NAT gateway; its address is billed where it is declared."""
    around = _around(resource, graph)
    return [around.part_component("gateway", NAT), *traffic.traffic_components(resource, graph, around)]


def load_balancer(resource: Resource, graph: Graph) -> Components:
    """Bill an application, network or gateway load balancer, and the public addresses it takes."""
    if hidden := unsaid(resource.inputs, "its kind is", "load_balancer", "loadBalancerType"):
        return [*hidden]
    return _balancer(resource, graph, str(read_text(resource.inputs, "loadBalancerType") or "application"))


def classic(resource: Resource, graph: Graph) -> Components:
    """Bill a classic load balancer."""
    return _balancer(resource, graph, "classic")


def endpoint(resource: Resource, graph: Graph) -> Components:
    """Bill an interface endpoint per subnet; gateway endpoints are free."""
    if read_text(resource.inputs, "vpcEndpointType") in (None, "Gateway"):
        return []
    if hidden := unsaid(resource.inputs, "its kind is", "endpoint", "vpcEndpointType"):
        return [*hidden]
    if hidden := unsaid(resource.inputs, "how many subnets it is in is", "endpoint", "subnetIds"):
        return [*hidden]
    around = _around(resource, graph)
    return [
        around.part_component(
            "endpoint", ENDPOINT, Decimal(max(1, len(read_list(resource.inputs, "subnetIds"))))
        )
    ]


def _balancer(resource: Resource, graph: Graph, kind: str) -> Components:
    around = _around(resource, graph)
    found: Components = [around.part_component("load_balancer", f"{LOAD_BALANCER}:{kind}")]
    subnets = len(read_list(resource.inputs, "subnets")) or len(read_list(resource.inputs, "subnetMappings"))
    elastic = any(read_value(each, "allocationId") for each in read_list(resource.inputs, "subnetMappings"))
    if kind != "gateway" and read_value(resource.inputs, "internal") is not True and subnets and not elastic:
        found.append(
            around.part_component("public_ipv4", ADDRESS, Decimal(subnets))
        )  # one in each of its subnets
    elif kind != "gateway" and read_value(resource.inputs, "internal") is not True:
        found += unsaid(resource.inputs, "how many public addresses it takes is", "public_ipv4", "subnets")
    if units := graph.usage_of(resource).load_balancer_units:
        found.append(around.part_component("units", f"{UNITS}:{kind}", units))
    return [*found, *traffic.traffic_components(resource, graph, around)]


def _around(resource: Resource, graph: Graph) -> PartContext:
    return PartContext("aws", aws_parts.region(resource, graph), graph.terms_of(resource).pool)
