"""Kubernetes objects that make load balancers, machines and services in the cloud, priced where the program shows them.

Objects are found by group and kind, whatever their version: custom resources have the type
``kubernetes:GROUP/VERSION:KIND``. A kind has its meaning in its own group only. Kinds that only run on machines of the
cluster are in ``data/free_types.csv``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Text,
    read_input,
    read_input_choice,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.kubernetes_cluster import find_cluster_place
from gpufleet.cost.pricing.pricers.kubernetes_storage import (
    price_persistent_volume,
    price_stateful_set,
    price_volume_claim,
)
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, LOAD_BALANCER
from gpufleet.engine import StateResource, UnreadableValue

PREFIX = "kubernetes:"
# Annotations and classes of the AWS Load Balancer Controller and of EKS Auto Mode (their documentation).
AWS_TYPE = "service.beta.kubernetes.io/aws-load-balancer-type"
AWS_SCHEME = "service.beta.kubernetes.io/aws-load-balancer-scheme"
AWS_NETWORK_TYPES = ("nlb", "nlb-ip", "external")
AWS_NETWORK_CLASSES = ("service.k8s.aws/nlb", "eks.amazonaws.com/nlb")
AWS_INGRESS_SCHEME, AWS_INGRESS_GROUP = (
    "alb.ingress.kubernetes.io/scheme",
    "alb.ingress.kubernetes.io/group.name",
)
INGRESS_CLASS = "kubernetes.io/ingress.class"
GKE_INGRESS_CLASSES = ("gce", "gce-internal")
GKE_GATEWAY_PREFIX = "gke-l7-"
POD_INGRESS_CLASSES = (
    "nginx",
    "traefik",
    "haproxy",
    "istio",
    "contour",
    "kong",
    "cilium",
    "public",
    "internal",
)
PER_SUBNET = "how many public addresses it takes follows its subnets"
# Groups of controllers that make resources of a cloud from objects, by the end of the group.
CLOUD_CONTROLLERS = {
    ".services.k8s.aws": "AWS Controllers for Kubernetes",
    ".cnrm.cloud.google.com": "Config Connector",
    ".azure.com": "Azure Service Operator",
    ".upbound.io": "Crossplane",
}
FREE_CONTROLLER_GROUPS = ("iam.", "authorization.", "managedidentity.", "resources.", "resourcemanager.")
NODE_POOL_GROUPS = ("karpenter.sh", "karpenter.k8s.aws", "karpenter.azure.com", "eks.amazonaws.com")
NODE_POOL_KINDS = (
    "NodePool",
    "Provisioner",
    "NodeClaim",
    "EC2NodeClass",
    "AWSNodeTemplate",
    "AKSNodeClass",
    "NodeClass",
)
# Components of objects from files and charts: the engine lists their objects, an evaluation without it may not.
OBJECT_COMPONENTS = ("ConfigFile", "ConfigGroup", "Chart", "Directory")


SERVICE_TYPES = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")


@dataclass(frozen=True)
class BalancerInputs:
    """What a service, an ingress or a gateway says about its load balancer."""

    wants_balancer: bool
    annotations: Mapping[str, Any]
    class_name: Text


def parse_service_inputs(inputs: Any) -> BalancerInputs:
    """Parse a service."""
    return BalancerInputs(
        wants_balancer=read_input_choice(inputs, SERVICE_TYPES, "spec", "type")
        in ("LoadBalancer", *UnreadableValue),
        annotations=_parse_annotations(inputs),
        class_name=read_input_text(inputs, "spec", "loadBalancerClass"),
    )


def parse_ingress_inputs(inputs: Any) -> BalancerInputs:
    """Parse an ingress."""
    annotations = _parse_annotations(inputs)
    name = read_input_text(inputs, "spec", "ingressClassName")
    return BalancerInputs(
        True, annotations, read_input_text(annotations, INGRESS_CLASS) if name is None else name
    )


def parse_gateway_inputs(inputs: Any) -> BalancerInputs:
    """Parse a gateway."""
    name = read_input_text(inputs, "spec", "gatewayClassName")
    return BalancerInputs(True, _parse_annotations(inputs), name)


def find_kubernetes_pricer(type_token: str) -> Pricer | None:
    """Return the pricer of a Kubernetes object by its group and kind, None if there is none."""
    if not type_token.startswith(PREFIX) or type_token.count(":") < 2:  # noqa: PLR2004 - kubernetes:GROUP/VERSION:KIND
        return None
    group, kind = _split_type(type_token)
    kind = kind.removesuffix("Patch")
    if (group, kind) in OBJECT_PRICERS:
        return OBJECT_PRICERS[group, kind]
    if (group, kind.removesuffix("List")) in OBJECT_PRICERS:
        return partial(_price_object_list, OBJECT_PRICERS[group, kind.removesuffix("List")])
    if kind in OBJECT_COMPONENTS and group in ("yaml", "helm.sh", "kustomize"):
        return price_object_component
    if kind in NODE_POOL_KINDS and group in NODE_POOL_GROUPS:
        return price_node_pool
    is_cloud_object = any(group.endswith(end) for end in CLOUD_CONTROLLERS)
    return price_cloud_object if is_cloud_object else None


def _split_type(type_token: str) -> tuple[str, str]:
    """Return the group and the kind of ``kubernetes:GROUP/VERSION:KIND``."""
    group_version, _, kind = type_token.removeprefix(PREFIX).rpartition(":")
    return group_version.partition("/")[0], kind


def _price_object_list(pricer: Pricer, resource: StateResource, graph: ResourceGraph) -> Components:
    """Return what the objects of a list bill, each as a single one does; its index ends the names of its parts."""
    items = read_input(resource.inputs, "items")
    if isinstance(items, str) or not isinstance(items, Sequence):
        return [] if items is None else [UnpricedComponent("which objects it lists is not known")]
    return [
        replace(each, component=f"{each.component}:{index}" if each.component else "")
        for index, item in enumerate(items)
        for each in pricer(replace(resource, inputs=item), graph)
    ]


def price_kubernetes_service(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the load balancer that a service requests from its cloud."""
    service = parse_service_inputs(resource.inputs)
    if not service.wants_balancer:
        return []
    cloud, region = find_cluster_place(resource, graph)
    is_network = (
        service.annotations.get(AWS_TYPE) in AWS_NETWORK_TYPES or service.class_name in AWS_NETWORK_CLASSES
    )
    if is_network:
        is_public = service.annotations.get(AWS_SCHEME) == "internet-facing"
        return _aws_balancer(resource, graph, "network", is_public=is_public)
    if cloud == "gcp":
        return [_forwarding_rule(region)]
    reason = "the cluster creates a load balancer for it, and the cloud chooses its type"
    return [UnpricedComponent(reason, LOAD_BALANCER)]


def price_ingress(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the load balancer of an ingress; one that pods serve is billed with their service."""
    ingress = parse_ingress_inputs(resource.inputs)
    cloud, region = find_cluster_place(resource, graph)
    name = ingress.class_name
    if name == "alb":
        if not _is_first_of_its_group(resource, ingress, graph):
            return []
        is_public = ingress.annotations.get(AWS_INGRESS_SCHEME) == "internet-facing"
        return _aws_balancer(resource, graph, "application", is_public=is_public)
    if name in GKE_INGRESS_CLASSES or (name is None and cloud == "gcp"):
        return [_forwarding_rule(region)]
    if isinstance(name, str) and name.startswith(POD_INGRESS_CLASSES):
        return []
    label = f" {name}" if isinstance(name, str) else ""
    reason = f"its ingress class{label} may create a load balancer, which the program does not show"
    return [UnpricedComponent(reason, LOAD_BALANCER)]


def price_gateway(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the load balancer of a gateway."""
    name = parse_gateway_inputs(resource.inputs).class_name
    if isinstance(name, str) and name.startswith(GKE_GATEWAY_PREFIX):
        return [_forwarding_rule(find_cluster_place(resource, graph, "gcp")[1])]
    label = f" {name}" if isinstance(name, str) else ""
    reason = f"its gateway class{label} may create a load balancer, which the program does not show"
    return [UnpricedComponent(reason, LOAD_BALANCER)]


def price_helm_release(resource: StateResource, graph: ResourceGraph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return what a Helm chart may make in addition to pods."""
    return [
        UnpricedComponent("a Helm chart's inputs do not list the load balancers and disks that it creates")
    ]


def price_object_component(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the objects of a file or chart without a price if none of them is here."""
    if any(each.parent == resource.urn for each in graph.resources):
        return []
    return [UnpricedComponent("its objects are not listed here; a preview by the engine lists them")]


def price_node_pool(resource: StateResource, graph: ResourceGraph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return the machines that Karpenter starts without a price: they follow the pods."""
    limit = text_if_known(read_input_text(resource.inputs, "spec", "limits", "cpu"))
    most = f", up to {limit} CPUs" if limit else ""
    return [UnpricedComponent(f"Karpenter starts machines as pods ask for them{most}", "machine")]


def price_cloud_object(resource: StateResource, graph: ResourceGraph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return the cloud resource that a controller makes from an object, without a price."""
    group, kind = _split_type(resource.type)
    if group.startswith(FREE_CONTROLLER_GROUPS):
        return []
    controller = next(name for end, name in CLOUD_CONTROLLERS.items() if group.endswith(end))
    return [UnpricedComponent(f"{controller} creates the {kind} in the cloud, which is not priced here")]


def _aws_balancer(
    resource: StateResource, graph: ResourceGraph, balancer_type: str, *, is_public: bool
) -> Components:
    context = MachinePartContext("aws", find_cluster_place(resource, graph, "aws")[1])
    balancer = context.make_part_component(LOAD_BALANCER, f"{LOAD_BALANCER}:{balancer_type}")
    return [balancer, *([UnpricedComponent(PER_SUBNET, ADDRESS)] if is_public else [])]


def _forwarding_rule(region: str) -> CostComponent:
    context = MachinePartContext("gcp", region)
    return context.make_part_component(LOAD_BALANCER, f"{LOAD_BALANCER}:forwarding_rule")


def _is_first_of_its_group(resource: StateResource, ingress: BalancerInputs, graph: ResourceGraph) -> bool:
    """Return whether an ingress is the first of those that share a load balancer."""
    group = ingress.annotations.get(AWS_INGRESS_GROUP)
    if group is None:
        return True
    others = (
        each.urn
        for each in graph.resources
        if OBJECT_PRICERS.get(_split_type(each.type)) is price_ingress
        and _parse_annotations(each.inputs).get(AWS_INGRESS_GROUP) == group
    )
    return resource.urn == min(others, default=resource.urn)


def _parse_annotations(inputs: Any) -> Mapping[str, Any]:
    annotations = read_input(inputs, "metadata", "annotations")
    return annotations if isinstance(annotations, Mapping) else {}


OBJECT_PRICERS: dict[tuple[str, str], Pricer] = {
    ("core", "Service"): price_kubernetes_service,
    ("core", "PersistentVolumeClaim"): price_volume_claim,
    ("core", "PersistentVolume"): price_persistent_volume,
    ("apps", "StatefulSet"): price_stateful_set,
    ("networking.k8s.io", "Ingress"): price_ingress,
    ("extensions", "Ingress"): price_ingress,
    ("gateway.networking.k8s.io", "Gateway"): price_gateway,
    ("helm.sh", "Release"): price_helm_release,
}
# The types that current versions of Kubernetes have for them.
CURRENT_TYPES = {
    "kubernetes:core/v1:Service": ("core", "Service"),
    "kubernetes:core/v1:PersistentVolumeClaim": ("core", "PersistentVolumeClaim"),
    "kubernetes:core/v1:PersistentVolume": ("core", "PersistentVolume"),
    "kubernetes:apps/v1:StatefulSet": ("apps", "StatefulSet"),
    "kubernetes:networking.k8s.io/v1:Ingress": ("networking.k8s.io", "Ingress"),
    "kubernetes:gateway.networking.k8s.io/v1:Gateway": ("gateway.networking.k8s.io", "Gateway"),
    "kubernetes:helm.sh/v3:Release": ("helm.sh", "Release"),
}
