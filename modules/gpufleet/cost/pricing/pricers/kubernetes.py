"""Kubernetes objects that make load balancers, machines and services in the cloud, priced where the program shows them.

Objects are found by group and kind, whatever their version: custom resources have the type
``kubernetes:GROUP/VERSION:KIND``. A kind has its meaning in its own group only. Kinds that only run on machines of the
cluster are in ``data/free_types.csv``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import read_input, text_if_known
from gpufleet.cost.pricing.component import Components, CostComponent, UnpricedComponent
from gpufleet.cost.pricing.pricers import kubernetes_storage  # noqa: F401 - it registers those of disks
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.kubernetes_cluster import pricer, within_cluster
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, LOAD_BALANCER
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import StateResource, UnreadableValue

PREFIX = "kubernetes:"
# Annotations and classes of the AWS Load Balancer Controller and of EKS Auto Mode (their documentation).
AWS_TYPE = 'metadata.annotations["service.beta.kubernetes.io/aws-load-balancer-type"]'
AWS_SCHEME = 'metadata.annotations["service.beta.kubernetes.io/aws-load-balancer-scheme"]'
AWS_NETWORK_TYPES = ("nlb", "nlb-ip", "external")
AWS_NETWORK_CLASSES = ("service.k8s.aws/nlb", "eks.amazonaws.com/nlb")
AWS_INGRESS_SCHEME = 'metadata.annotations["alb.ingress.kubernetes.io/scheme"]'
AWS_INGRESS_GROUP = "alb.ingress.kubernetes.io/group.name"
PUBLIC = "internet-facing"
INGRESS_CLASS = 'spec.ingressClassName or metadata.annotations["kubernetes.io/ingress.class"]'
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


@pricer("kubernetes:core/v1:Service")
def price_kubernetes_service(service: Reader) -> Parts:
    """Yield the load balancer that a service requests from its cloud."""
    if service.find_choice("spec.type", SERVICE_TYPES) not in ("LoadBalancer", *UnreadableValue):
        return
    class_name = service.find_text("spec.loadBalancerClass")
    if service.find_text(AWS_TYPE) in AWS_NETWORK_TYPES or class_name in AWS_NETWORK_CLASSES:
        yield from _list_aws_balancer(service, "network", AWS_SCHEME)
    elif within_cluster(service).cloud == "gcp":
        yield _make_forwarding_rule(service)
    else:
        reason = "the cluster creates a load balancer for it, and the cloud chooses its type"
        raise service.of(LOAD_BALANCER).refuse(reason)


@pricer("kubernetes:networking.k8s.io/v1:Ingress")
def price_ingress(ingress: Reader) -> Parts:
    """Yield the load balancer of an ingress; one that pods serve is billed with their service."""
    name = ingress.find_text(INGRESS_CLASS)
    if name == "alb":
        if _is_first_of_its_group(ingress):
            yield from _list_aws_balancer(ingress, "application", AWS_INGRESS_SCHEME)
    elif name in GKE_INGRESS_CLASSES or (name is None and within_cluster(ingress).cloud == "gcp"):
        yield _make_forwarding_rule(ingress)
    elif not isinstance(name, str) or not name.startswith(POD_INGRESS_CLASSES):
        label = f" {name}" if isinstance(name, str) else ""
        reason = f"its ingress class{label} may create a load balancer, which the program does not show"
        raise ingress.of(LOAD_BALANCER).refuse(reason)


@pricer("kubernetes:gateway.networking.k8s.io/v1:Gateway")
def price_gateway(gateway: Reader) -> Parts:
    """Yield the load balancer of a gateway."""
    name = text_if_known(gateway.find_text("spec.gatewayClassName")) or ""
    if not name.startswith(GKE_GATEWAY_PREFIX):
        label = f" {name}" if name else ""
        reason = f"its gateway class{label} may create a load balancer, which the program does not show"
        raise gateway.of(LOAD_BALANCER).refuse(reason)
    yield _make_forwarding_rule(gateway)


@pricer("kubernetes:helm.sh/v3:Release")
def price_helm_release(release: Reader) -> Parts:
    """Refuse what a Helm chart may make in addition to pods."""
    raise release.refuse("a Helm chart's inputs do not list the load balancers and disks that it creates")


@pricer()
def price_object_component(component: Reader) -> Parts:
    """Refuse the objects of a file or chart if none of them is here."""
    if not any(each.parent == component.resource.urn for each in component.graph.resources):
        raise component.refuse("its objects are not listed here; a preview by the engine lists them")
    return iter(())


@pricer()
def price_node_pool(pool: Reader) -> Parts:
    """Refuse the machines that Karpenter starts: they follow the pods."""
    limit = text_if_known(pool.find_text("spec.limits.cpu"))
    most = f", up to {limit} CPUs" if limit else ""
    raise pool.of("machine").refuse(f"Karpenter starts machines as pods ask for them{most}")


@pricer()
def price_cloud_object(cloud_object: Reader) -> Parts:
    """Refuse the cloud resource that a controller makes from an object."""
    group, kind = _split_type(cloud_object.resource.type)
    if not group.startswith(FREE_CONTROLLER_GROUPS):
        controller = next(name for end, name in CLOUD_CONTROLLERS.items() if group.endswith(end))
        raise cloud_object.refuse(f"{controller} creates the {kind} in the cloud, which is not priced here")
    return iter(())


def _list_aws_balancer(owner: Reader, balancer_type: str, scheme: str) -> Parts:
    yield within_cluster(owner, "aws").of(LOAD_BALANCER).part(f"{LOAD_BALANCER}:{balancer_type}")
    with owner.of(ADDRESS) as address:
        if address.find_text(scheme) == PUBLIC:
            raise address.refuse(PER_SUBNET)


def _make_forwarding_rule(owner: Reader) -> CostComponent | None:
    return within_cluster(owner, "gcp").of(LOAD_BALANCER).part(f"{LOAD_BALANCER}:forwarding_rule")


def _is_first_of_its_group(ingress: Reader) -> bool:
    """Return whether an ingress is the first of those that share a load balancer."""
    path = ("metadata", "annotations", AWS_INGRESS_GROUP)
    group, own = read_input(ingress.inputs, *path), ingress.resource.urn
    others = (
        each.urn
        for each in ingress.graph.resources
        if OBJECT_PRICERS.get(_split_type(each.type)) is price_ingress
        and read_input(each.inputs, *path) == group
    )
    return group is None or own == min(others, default=own)


# By group and kind, in any version; the types are those of current versions of Kubernetes.
OBJECT_PRICERS: dict[tuple[str, str], Pricer] = {
    **{_split_type(type_): price for type_, price in pricer.pricers.items()},
    ("extensions", "Ingress"): price_ingress,
}
