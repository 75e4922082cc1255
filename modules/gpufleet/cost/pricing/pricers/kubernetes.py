"""What a cluster's own objects make in the cloud: load balancers and disks that their inputs do not price."""

from __future__ import annotations

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import known_text, read_text
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.engine import Resource


def price_service(resource: Resource, graph: Graph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return the load balancer that a service requests from its cloud."""
    if read_text(resource.inputs, "spec", "type") != "LoadBalancer":
        return []
    reason = "the cluster makes a load balancer for it, of a kind that its cloud chooses"
    return [UnpricedComponent(reason, "load_balancer")]


def price_volume_claim(resource: Resource, graph: Graph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return the disk that a volume claim requests from its cloud."""
    size = known_text(read_text(resource.inputs, "spec", "resources", "requests", "storage"))
    disk = "disk" if size is None else f"disk of {size}"
    reason = f"the cluster makes a {disk} for it, of a kind that its storage class chooses"
    return [UnpricedComponent(reason, "disk")]


def price_release(resource: Resource, graph: Graph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return what a Helm chart may make in addition to pods."""
    return [UnpricedComponent("what a Helm chart makes (load balancers, disks) is not among its inputs")]
