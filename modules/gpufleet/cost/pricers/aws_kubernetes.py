"""EKS: control planes and managed node groups."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.cost.graph import Graph
from gpufleet.cost.pricers import aws_launch, aws_parts
from gpufleet.cost.pricers.aws_instance import claim, is_spot, spot_price
from gpufleet.cost.pricers.aws_make import IN_BLOCK, address, instead, platform
from gpufleet.cost.pricers.aws_support import extended
from gpufleet.cost.pricers.common import bounds, licence
from gpufleet.cost.pricers.part_names import KUBERNETES
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.values import MARKER_REASONS, read_list, read_number, read_text, read_value
from gpufleet.engine import Marker, Resource

DEFAULT_TYPE = "t3.medium"  # the provider's documentation of instanceTypes
DEFAULT_DISK_GIB = 20  # the provider's documentation of diskSize, for Linux
DISK_KIND = "which EBS volume a node group makes is EKS's choice"


def cluster(resource: Resource, graph: Graph) -> Components:
    """Bill a control plane; what Auto Mode starts follows the pods, which no program declares."""
    around = PartContext("aws", aws_parts.region(resource, graph), graph.terms_of(resource).pool)
    found: Components = [around.part_component("control_plane", KUBERNETES), *extended(resource.inputs)]
    if read_value(resource.inputs, "computeConfig", "enabled") is True:
        found.append(UnpricedComponent("EKS Auto Mode starts machines as pods ask for them", "machine"))
    return found


def fargate(resource: Resource, graph: Graph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Name what a Fargate profile lets bill: the pods, by what they request."""
    return [
        UnpricedComponent("Fargate bills each pod by what it requests, which no program declares", "pods")
    ]


def node_group(resource: Resource, graph: Graph) -> Components:
    """Bill a managed node group between its least and greatest size."""
    source = aws_launch.template(resource, graph, ("launchTemplate", "id"), ("launchTemplate", "name"))
    sizes = (
        read_number(resource.inputs, "scalingConfig", key) for key in ("minSize", "desiredSize", "maxSize")
    )
    count = graph.resolve_size(resource, bounds(*sizes))
    names = _types(resource, source)
    if count is None:
        return [UnpricedComponent("node group size is not known until deployment", "machine")]
    if isinstance(names, UnpricedComponent):
        return [names]
    where, capacity = aws_parts.region(resource, graph), read_text(resource.inputs, "capacityType")
    if isinstance(capacity, Marker):
        return [UnpricedComponent(f"capacity type is {MARKER_REASONS[capacity]}", "machine")]
    spot = capacity == "SPOT" or (is_spot(source.type, source.inputs) if source else None)
    terms = graph.terms_of(resource, source, spot=False if capacity == "ON_DEMAND" else spot)
    terms = aws_launch.bidding(terms, spot_price(source.inputs if source else {}))
    main = CostComponent(
        "machine", names, "aws", where, count, terms=terms, hours_per_month=terms.billed_hours
    )
    if source and terms.purchase != "spot":
        said = {**source.inputs, "amiType": resource.inputs.get("amiType")}
        main = replace(main, claim=claim(source, said, graph, resource))
    around = PartContext("aws", where, terms.pool, count, terms.billed_hours)
    other = UnpricedComponent(IN_BLOCK, "machine") if capacity == "CAPACITY_BLOCK" else None
    other = other or (instead(source.inputs) if source else None)
    machines: Components = [other] if other else [main]
    return [*machines, *_beside(resource, source, around, graph), *licence(platform(resource.inputs))]


def _types(resource: Resource, source: Resource | None) -> tuple[str, ...] | UnpricedComponent:
    listed = [
        read_text(resource.inputs, "instanceTypes", at)
        for at in range(len(read_list(resource.inputs, "instanceTypes")))
    ]
    unknown = read_value(resource.inputs, "instanceTypes")
    if isinstance(unknown, Marker) or any(isinstance(name, Marker) for name in listed):
        return UnpricedComponent("instance type is not known until deployment", "machine")
    if names := tuple(name for name in listed if isinstance(name, str)):
        return names
    if source is not None and read_value(source.inputs, "instanceType") is not None:
        kinds = aws_launch.kinds([], source)
        return kinds if isinstance(kinds, UnpricedComponent) else kinds.names
    if source is None and read_value(resource.inputs, "launchTemplate") is not None:
        return UnpricedComponent("its launch template is not in this stack", "machine")
    return (DEFAULT_TYPE,)


def _beside(resource: Resource, source: Resource | None, around: PartContext, graph: Graph) -> Components:
    """Return the nodes' disks: a template's, else one whose kind EKS chooses."""
    if read_value(resource.inputs, "launchTemplate") is not None:
        return aws_launch.beside(source, around, resource, graph)
    size = read_number(resource.inputs, "diskSize")
    gib = DEFAULT_DISK_GIB if size is None else size
    disk = UnpricedComponent(
        f"{DISK_KIND} ({gib} GiB a node)" if not isinstance(gib, Marker) else DISK_KIND, "disk:root"
    )
    return [disk, *address(resource, graph, None, around)]
