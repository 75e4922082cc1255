"""EKS: control planes and managed node groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    is_input_true,
    read_input,
    read_input_list,
    read_input_number,
    read_input_text,
    read_list_marker,
)
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.address import public_address_components
from gpufleet.cost.pricing.pricers.aws.instance import make_reservation_claim
from gpufleet.cost.pricing.pricers.aws.kubernetes_support import find_extended_support_note, is_version
from gpufleet.cost.pricing.pricers.aws.launch import (
    TEMPLATE_OUTSIDE,
    LaunchSource,
    find_launch_source,
    launched_part_components,
    resolve_machine_types,
    with_max_spot_price,
)
from gpufleet.cost.pricing.pricers.aws.launch_inputs import (
    IN_CAPACITY_BLOCK,
    WINDOWS,
    parse_operating_system_platform,
    unbilled_machine_components,
)
from gpufleet.cost.pricing.pricers.aws.location import (
    PlacementInputs,
    find_possible_zones,
    find_region,
    parse_placement_inputs,
    standalone_part_context,
)
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.licence import system_licence_components
from gpufleet.cost.pricing.pricers.part_names import KUBERNETES
from gpufleet.engine import StateResource, UnreadableValue

EXTENDED_SUPPORT = (
    f"{KUBERNETES}:extended_support"  # the whole control plane, of a version past standard support
)
STANDARD_TIER = "standard"
DEFAULT_TYPE = "t3.medium"  # the provider's documentation of instanceTypes
DEFAULT_DISK_GIB = 20  # the provider's documentation of diskSize, for Linux
DISK_TYPE = "EKS chooses the EBS volume of each node"


@dataclass(frozen=True)
class EksClusterInputs:
    """The inputs of a cluster. ``version`` is None if EKS chooses it.

    ``scaling_tier`` is that of a provisioned control plane, which bills on top of the cluster.
    """

    version: Text
    scaling_tier: Text
    declines_extended_support: bool
    has_auto_mode: bool


@dataclass(frozen=True)
class EksNodeGroupInputs:
    """The inputs of a managed node group. ``instance_types`` is a marker if one of them is not known."""

    min_size: Number
    desired_size: Number
    max_size: Number
    capacity_type: Text
    instance_types: tuple[str, ...] | UnreadableValue
    has_launch_template: bool
    disk_size_gib: Number
    platform: str
    placement: PlacementInputs


def parse_eks_cluster_inputs(inputs: Any) -> EksClusterInputs:
    """Parse a cluster."""
    return EksClusterInputs(
        version=read_input_text(inputs, "version"),
        scaling_tier=read_input_text(inputs, "controlPlaneScalingConfig", "tier"),
        declines_extended_support=read_input_text(inputs, "upgradePolicy", "supportType") == "STANDARD",
        has_auto_mode=is_input_true(inputs, "computeConfig", "enabled"),
    )


def parse_eks_node_group_inputs(inputs: Any) -> EksNodeGroupInputs:
    """Parse a managed node group."""
    return EksNodeGroupInputs(
        min_size=read_input_number(inputs, "scalingConfig", "minSize"),
        desired_size=read_input_number(inputs, "scalingConfig", "desiredSize"),
        max_size=read_input_number(inputs, "scalingConfig", "maxSize"),
        capacity_type=read_input_text(inputs, "capacityType"),
        instance_types=_parse_instance_types(inputs),
        has_launch_template=read_input(inputs, "launchTemplate") is not None,
        disk_size_gib=read_input_number(inputs, "diskSize"),
        platform=parse_operating_system_platform(inputs),
        placement=replace(parse_placement_inputs(inputs), names_no_subnet=False),  # EKS requires subnets
    )


def price_eks_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a control plane. What Auto Mode starts follows the pods, which the program does not declare."""
    cluster = parse_eks_cluster_inputs(resource.inputs)
    context = standalone_part_context(resource, graph)
    note = (
        ""
        if cluster.declines_extended_support
        else find_extended_support_note(cluster.version, graph.on_date)
    )
    item = EXTENDED_SUPPORT if note else KUBERNETES
    components: Components = [replace(context.make_part_component("control_plane", item), note=note)]
    if isinstance(cluster.version, str) and not is_version(cluster.version):
        reason = f"{cluster.version} is not a version: an old one bills more"
        components.append(UnpricedComponent(reason, "version"))
    if isinstance(cluster.scaling_tier, UnreadableValue):
        reason = f"its control plane's tier is {MARKER_REASONS[cluster.scaling_tier]}"
        components.append(UnpricedComponent(reason, "control_plane_tier"))
    elif cluster.scaling_tier not in (None, STANDARD_TIER):
        tier_item = f"{KUBERNETES}:{cluster.scaling_tier}"
        components.append(context.make_part_component("control_plane_tier", tier_item))
    if cluster.has_auto_mode:
        components.append(UnpricedComponent("EKS Auto Mode starts machines as pods ask for them", "machine"))
    return components


def price_fargate_profile(resource: StateResource, graph: ResourceGraph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return the pods of a Fargate profile without a price: they bill by what they request."""
    reason = "Fargate bills each pod by what it requests, which the program does not declare"
    return [UnpricedComponent(reason, "pods")]


def price_eks_node_group(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a managed node group between its least and greatest size."""
    group = parse_eks_node_group_inputs(resource.inputs)
    source = find_launch_source(resource, graph, ("launchTemplate", "id"), ("launchTemplate", "name"))
    declared_size = group_size_range(group.min_size, group.desired_size, group.max_size)
    count = graph.resolve_group_size(resource, declared_size)
    if count is None:
        return [UnpricedComponent("node group size is not known until deployment", "machine")]
    types = _instance_types(group, source)
    if isinstance(types, UnpricedComponent):
        return [types]
    if isinstance(group.capacity_type, UnreadableValue):
        return [UnpricedComponent(f"capacity type is {MARKER_REASONS[group.capacity_type]}", "machine")]
    region = find_region(resource, graph)
    is_spot = group.capacity_type == "SPOT" or (source.inputs.is_spot if source else None)
    terms = graph.purchase_terms_of(
        resource,
        source.resource if source else None,
        spot=False if group.capacity_type == "ON_DEMAND" else is_spot,
    )
    terms = with_max_spot_price(terms, source.inputs.max_spot_price if source else None)
    machine = CostComponent(
        "machine", types, "aws", region, count, terms=terms, hours_per_month=terms.billed_hours_per_month
    )
    if source and terms.purchase != "spot":
        is_windows = WINDOWS in (source.inputs.platform, group.platform)
        launch = replace(source.inputs, platform=WINDOWS) if is_windows else source.inputs
        group_zones = find_possible_zones(resource, group.placement, graph)
        claim = make_reservation_claim(source.resource, launch, graph, group_zones)
        machine = replace(machine, claim=claim)
    unbilled = unbilled_machine_components(source.inputs, graph, source.resource) if source else None
    if unbilled is None and group.capacity_type == "CAPACITY_BLOCK":
        unbilled = [UnpricedComponent(IN_CAPACITY_BLOCK, "machine")]
    context = MachinePartContext("aws", region, terms.pool, count, terms.billed_hours_per_month)
    return [
        *([machine] if unbilled is None else unbilled),
        *_part_components(resource, group, source, context, graph),
        *system_licence_components(group.platform),
    ]


def _parse_instance_types(inputs: Any) -> tuple[str, ...] | UnreadableValue:
    if hidden := read_list_marker(inputs, "instanceTypes"):
        return hidden
    entries = read_input_list(inputs, "instanceTypes")
    names = [read_input_text(entry) for entry in entries]
    marker = next((name for name in names if isinstance(name, UnreadableValue)), None)
    return marker or tuple(name for name in names if isinstance(name, str))


def _instance_types(
    group: EksNodeGroupInputs, source: LaunchSource | None
) -> tuple[str, ...] | UnpricedComponent:
    """Return the types of a node group: its own, else its template's, else EKS's default."""
    if isinstance(group.instance_types, UnreadableValue):
        return UnpricedComponent("instance type is not known until deployment", "machine")
    if group.instance_types:
        return group.instance_types
    if source is not None and source.inputs.instance_type is not None:
        types = resolve_machine_types([], source)
        return types if isinstance(types, UnpricedComponent) else types.names
    if source is None and group.has_launch_template:
        return UnpricedComponent(TEMPLATE_OUTSIDE, "machine")
    return (DEFAULT_TYPE,)


def _part_components(
    resource: StateResource,
    group: EksNodeGroupInputs,
    source: LaunchSource | None,
    context: MachinePartContext,
    graph: ResourceGraph,
) -> Components:
    """Return the nodes' disks and addresses: a template's, else a disk of which EKS chooses the type."""
    if group.has_launch_template:
        return launched_part_components(source, context, resource, group.placement, graph)
    size_gib = DEFAULT_DISK_GIB if group.disk_size_gib is None else group.disk_size_gib
    reason = DISK_TYPE if isinstance(size_gib, UnreadableValue) else f"{DISK_TYPE} ({size_gib} GiB a node)"
    addresses = public_address_components(resource, group.placement, graph, None, context)
    return [UnpricedComponent(reason, "disk:root"), *addresses]
