"""The cloud and the region of the clusters of a stack: where its Kubernetes objects have their disks and balancers."""

from __future__ import annotations

from collections.abc import Callable

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.pricing.pricers.aws import location as aws_location
from gpufleet.cost.pricing.pricers.azure import location as azure_location
from gpufleet.cost.pricing.pricers.gcp import location as gcp_location
from gpufleet.engine import StateResource

CLUSTERS = {
    "aws:eks/cluster:Cluster": "aws",
    "gcp:container/cluster:Cluster": "gcp",
    "azure-native:containerservice:ManagedCluster": "azure",
    "azure:containerservice/kubernetesCluster:KubernetesCluster": "azure",
}
REGION_FINDERS: dict[str, Callable[[StateResource, ResourceGraph], str]] = {
    "aws": aws_location.find_region,
    "gcp": gcp_location.find_region,
    "azure": azure_location.find_region,
}


def find_cluster_place(resource: StateResource, graph: ResourceGraph, cloud: str = "") -> tuple[str, str]:
    """Return cloud and region of the cluster that an object is in, which is of ``cloud`` if that is known.

    It is a cluster of the stack; if that has none, the region is the default one. Empty if clusters differ.
    """
    places = {
        (name, REGION_FINDERS[name](cluster, graph))
        for type_, name in CLUSTERS.items()
        if cloud in ("", name)
        for cluster in graph.resources_of_types(type_)
    }
    if len(places) == 1:
        return next(iter(places))
    return cloud, graph.find_default_region(cloud, resource) if cloud and not places else ""
