"""Cloud NAT, load balancers' forwarding rules, and addresses for the whole world."""

from __future__ import annotations

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import read_text
from gpufleet.cost.pricing.component import Components, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers import gcp_parts, traffic
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, LOAD_BALANCER
from gpufleet.engine import Resource


def nat(resource: Resource, graph: Graph) -> Components:
    """Name a Cloud NAT: it bills by the machines that use it, which are not among its inputs."""
    around = _around(resource, graph)
    reason = "Cloud NAT bills by the machines that use it and their traffic, which its inputs do not tell"
    return [UnpricedComponent(reason, "gateway"), *traffic.traffic_components(resource, graph, around)]


def forwarding_rule(resource: Resource, graph: Graph) -> Components:
    """Bill a forwarding rule, which is what a load balancer is billed by."""
    around = _around(resource, graph)
    return [
        around.part_component("load_balancer", f"{LOAD_BALANCER}:forwarding_rule"),
        *traffic.traffic_components(resource, graph, around),
    ]


def global_address(resource: Resource, graph: Graph) -> Components:
    """Bill a global external address; internal ones are free."""
    if (
        read_text(resource.inputs, "addressType") == "INTERNAL"
        or read_text(resource.inputs, "ipVersion") == "IPV6"
    ):
        return []
    return [PartContext("gcp", "global", graph.terms_of(resource).pool).part_component(ADDRESS, ADDRESS)]


def _around(resource: Resource, graph: Graph) -> PartContext:
    return PartContext("gcp", gcp_parts.region(resource, graph) or "global", graph.terms_of(resource).pool)
