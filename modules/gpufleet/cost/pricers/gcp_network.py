"""Cloud NAT, load balancers' forwarding rules, and addresses for the whole world."""

from __future__ import annotations

from gpufleet.cost.demand import Around, Findings, Gap
from gpufleet.cost.graph import Graph
from gpufleet.cost.pricers import gcp_parts, traffic
from gpufleet.cost.pricers.part_names import ADDRESS, LOAD_BALANCER
from gpufleet.cost.values import text
from gpufleet.engine import Resource


def nat(resource: Resource, graph: Graph) -> Findings:
    """Name a Cloud NAT: it bills by the machines that use it, which are not among its inputs."""
    around = _around(resource, graph)
    reason = "Cloud NAT bills by the machines that use it and their traffic, which its inputs do not tell"
    return [Gap(reason, "gateway"), *traffic.told(resource, graph, around)]


def forwarding_rule(resource: Resource, graph: Graph) -> Findings:
    """Bill a forwarding rule, which is what a load balancer is billed by."""
    around = _around(resource, graph)
    return [
        around.part("load_balancer", f"{LOAD_BALANCER}:forwarding_rule"),
        *traffic.told(resource, graph, around),
    ]


def global_address(resource: Resource, graph: Graph) -> Findings:
    """Bill a global external address; internal ones are free."""
    if text(resource.inputs, "addressType") == "INTERNAL" or text(resource.inputs, "ipVersion") == "IPV6":
        return []
    return [Around("gcp", "global", graph.terms(resource).pool).part(ADDRESS, ADDRESS)]


def _around(resource: Resource, graph: Graph) -> Around:
    return Around("gcp", gcp_parts.region(resource, graph) or "global", graph.terms(resource).pool)
