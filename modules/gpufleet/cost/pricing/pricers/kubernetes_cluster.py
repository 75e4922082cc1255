"""The cloud and the region of the clusters of a stack: where its Kubernetes objects have their disks and balancers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.pricing.pricers.aws import location as aws_location
from gpufleet.cost.pricing.pricers.azure import location as azure_location
from gpufleet.cost.pricing.pricers.gcp import location as gcp_location
from gpufleet.cost.pricing.pricers.reader import PricerRegistry, Reader
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


pricer = PricerRegistry("", lambda _resource, _graph: "")


def within_cluster(reader: Reader, cloud: str = "") -> Reader:
    """Return the reader of an object in the cloud and region of its cluster, which is of ``cloud`` if that is known.

    It is a cluster of the stack; if that has none, the region is the default one. Empty if clusters differ.
    """
    places = {
        (name, REGION_FINDERS[name](cluster, reader.graph))
        for type_, name in CLUSTERS.items()
        if cloud in ("", name)
        for cluster in reader.graph.resources_of_types(type_)
    }
    if len(places) == 1:
        cloud, region = next(iter(places))
    else:
        is_default = cloud and not places
        region = reader.graph.find_default_region(cloud, reader.resource) if is_default else ""
    return replace(reader, cloud=cloud, region=region)
