"""What a cluster's own objects make in the cloud: load balancers and disks, at prices their inputs do not tell."""

from __future__ import annotations

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import read_text
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.engine import Resource


def service(resource: Resource, graph: Graph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Name the load balancer that a service asks its cloud for."""
    if read_text(resource.inputs, "spec", "type") != "LoadBalancer":
        return []
    return [
        UnpricedComponent(
            "the cluster makes a load balancer for it, of a kind that its cloud chooses", "load_balancer"
        )
    ]


def claim(resource: Resource, graph: Graph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Name the disk that a volume claim asks its cloud for."""
    size = read_text(resource.inputs, "spec", "resources", "requests", "storage")
    told = f" of {size}" if isinstance(size, str) else ""
    return [
        UnpricedComponent(
            f"the cluster makes a disk{told} for it, of a kind that its storage class chooses", "disk"
        )
    ]


def release(resource: Resource, graph: Graph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Name what a chart may make beside pods."""
    return [UnpricedComponent("what a Helm chart makes (load balancers, disks) is not among its inputs")]
