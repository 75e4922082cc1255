"""Kubernetes objects that make load balancers and disks in the cloud, of kinds that their inputs do not name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import read_input_text, text_if_known
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.engine import StateResource


@dataclass(frozen=True)
class KubernetesServiceInputs:
    """The inputs of a service."""

    has_load_balancer: bool


@dataclass(frozen=True)
class VolumeClaimInputs:
    """The inputs of a volume claim: its size as Kubernetes writes it (100Gi)."""

    requested_size: str | None


def parse_kubernetes_service_inputs(inputs: Any) -> KubernetesServiceInputs:
    """Parse a service."""
    return KubernetesServiceInputs(
        has_load_balancer=read_input_text(inputs, "spec", "type") == "LoadBalancer"
    )


def parse_volume_claim_inputs(inputs: Any) -> VolumeClaimInputs:
    """Parse a volume claim."""
    return VolumeClaimInputs(
        text_if_known(read_input_text(inputs, "spec", "resources", "requests", "storage"))
    )


def price_kubernetes_service(resource: StateResource, graph: ResourceGraph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return the load balancer that a service requests from its cloud."""
    if not parse_kubernetes_service_inputs(resource.inputs).has_load_balancer:
        return []
    reason = "the cluster creates a load balancer for it, and the cloud chooses its type"
    return [UnpricedComponent(reason, "load_balancer")]


def price_volume_claim(resource: StateResource, graph: ResourceGraph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return the disk that a volume claim requests from its cloud."""
    size = parse_volume_claim_inputs(resource.inputs).requested_size
    disk = "disk" if size is None else f"disk of {size}"
    reason = f"the cluster creates a {disk} for it, and the storage class chooses its type"
    return [UnpricedComponent(reason, "disk")]


def price_helm_release(resource: StateResource, graph: ResourceGraph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return what a Helm chart may make in addition to pods."""
    return [
        UnpricedComponent("a Helm chart's inputs do not list the load balancers and disks that it creates")
    ]
