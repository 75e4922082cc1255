"""GKE: clusters with the node pools inside them, and node pools of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    is_input_true,
    number_if_known,
    read_input,
    read_input_list,
    read_input_marker,
    read_input_number,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    MachinePartContext,
    ReservationClaim,
    UnpricedComponent,
)
from gpufleet.cost.pricing.pricers.gcp.cluster_location import (
    GkeLocationInputs,
    count_zones,
    inputs_with_location,
    parse_gke_location_inputs,
    possible_zones,
)
from gpufleet.cost.pricing.pricers.gcp.disk import NODE_DISK_INTERFACES, local_ssd_components
from gpufleet.cost.pricing.pricers.gcp.location import find_region
from gpufleet.cost.pricing.pricers.gcp.machine_inputs import (
    FLEX_START,
    OUTSIDE_STACK,
    RESERVATION,
    MachineInputs,
    address_component,
    image_licence_components,
    machine_components,
    parse_machine_inputs,
    reservation_attributes,
    with_reservation_claim,
)
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, KUBERNETES
from gpufleet.cost.pricing.pricers.required_input import unpriced_if_unreadable
from gpufleet.cost.pricing.region import gcp_region_of_zone
from gpufleet.engine import StateResource, UnreadableValue

CLUSTER = "gcp:container/cluster:Cluster"
# What GKE makes where a program has no setting (the provider's documentation of these inputs).
DEFAULT_TYPE, DEFAULT_DISK_GIB, DEFAULT_DISK = "e2-medium", Decimal(100), "pd-balanced"
RESERVATION_PATH = ("nodeConfig", "reservationAffinity", "values", 0)


@dataclass(frozen=True)
class GkeNodePoolInputs:
    """The inputs of a node pool, in a cluster or of its own.

    ``preemptible`` is whether its machines are spot. ``local_ssd_count`` is per node. ``has_private_nodes`` is None
    if the cluster decides whether nodes have no external address.
    """

    name: Text
    location: GkeLocationInputs
    hidden_config: UnreadableValue | None
    machine: MachineInputs
    preemptible: bool | UnreadableValue | None
    is_flex_start: bool
    disk_size_gib: Number
    disk_type: Text
    local_ssd_count: int
    reservation_affinity: Text
    has_private_nodes: bool | UnreadableValue | None
    node_count: Number
    is_autoscaled: bool
    total_minimum: Number
    total_maximum: Number
    zone_minimum: Number
    zone_maximum: Number


@dataclass(frozen=True)
class GkeClusterInputs:
    """The inputs of a cluster, with the node pools inside it.

    ``default_pool`` is the pool that GKE makes of the cluster's own inputs, None if there is none.
    """

    location: GkeLocationInputs
    is_autopilot: bool
    has_private_nodes: bool | UnreadableValue
    adds_node_pools: bool
    pools: tuple[GkeNodePoolInputs, ...]
    hidden_pools: UnreadableValue | None
    default_pool: GkeNodePoolInputs | None


def parse_gke_cluster_inputs(inputs: Any) -> GkeClusterInputs:
    """Parse a cluster."""
    has_pools = read_input(inputs, "nodePools") is not None
    has_default_pool = not has_pools and not is_input_true(inputs, "removeDefaultNodePool")
    return GkeClusterInputs(
        location=parse_gke_location_inputs(inputs),
        is_autopilot=is_input_true(inputs, "enableAutopilot"),
        has_private_nodes=_parse_private_nodes(inputs, "privateClusterConfig") or False,
        adds_node_pools=is_input_true(inputs, "clusterAutoscaling", "enabled"),
        pools=tuple(map(parse_gke_node_pool_inputs, read_input_list(inputs, "nodePools"))),
        hidden_pools=read_input_marker(inputs, "nodePools"),
        default_pool=parse_gke_node_pool_inputs(inputs) if has_default_pool else None,
    )


def parse_gke_node_pool_inputs(inputs: Any) -> GkeNodePoolInputs:
    """Parse a node pool, or the default pool of a cluster."""
    config = read_input(inputs, "nodeConfig") or {}
    machine = {"machineType": DEFAULT_TYPE, **(config if isinstance(config, dict) else {})}
    disk_size_gib = read_input_number(machine, "diskSizeGb")
    boot_disk_type = read_input_text(machine, "bootDisk", "diskType")
    node_count = read_input_number(inputs, "nodeCount")
    ssd_counts = (number_if_known(read_input_number(machine, *path)) for path in NODE_DISK_INTERFACES)
    return GkeNodePoolInputs(
        name=read_input_text(inputs, "name"),
        location=parse_gke_location_inputs(inputs),
        hidden_config=None if isinstance(config, dict) else UnreadableValue.UNKNOWN,
        machine=parse_machine_inputs(machine),
        preemptible=_parse_preemptible(config),
        is_flex_start=is_input_true(config, "flexStart")
        or is_input_true(inputs, "queuedProvisioning", "enabled"),
        disk_size_gib=read_input_number(machine, "bootDisk", "sizeGb")
        if disk_size_gib is None
        else disk_size_gib,
        disk_type=read_input_text(machine, "diskType") or boot_disk_type or DEFAULT_DISK,
        local_ssd_count=sum(int(count or 0) for count in ssd_counts),
        reservation_affinity=read_input_text(config, "reservationAffinity", "consumeReservationType"),
        has_private_nodes=_parse_private_nodes(inputs, "networkConfig"),
        node_count=read_input_number(inputs, "initialNodeCount") if node_count is None else node_count,
        is_autoscaled=read_input(inputs, "autoscaling") is not None,
        total_minimum=read_input_number(inputs, "autoscaling", "totalMinNodeCount"),
        total_maximum=read_input_number(inputs, "autoscaling", "totalMaxNodeCount"),
        zone_minimum=read_input_number(inputs, "autoscaling", "minNodeCount"),
        zone_maximum=read_input_number(inputs, "autoscaling", "maxNodeCount"),
    )


def price_gke_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a cluster's management fee, and the node pools that it declares itself."""
    inputs = inputs_with_location(resource, graph)
    cluster, region = parse_gke_cluster_inputs(inputs), _region_of_inputs(inputs, resource, graph)
    context = MachinePartContext("gcp", region, graph.purchase_terms_of(resource).pool)
    components: Components = [context.make_part_component("control_plane", KUBERNETES)]
    if cluster.is_autopilot:
        reason = "Autopilot bills each pod by what it requests, which the program does not declare"
        return [*components, UnpricedComponent(reason, "pods")]
    if cluster.adds_node_pools:
        reason = "node auto-provisioning adds machines as pods ask for them"
        components.append(UnpricedComponent(reason, "machine:auto"))
    components += unpriced_if_unreadable(cluster.hidden_pools, "its node pools are", "machine")
    zone_count = count_zones(cluster.location, region)
    for index, pool in enumerate(cluster.pools):
        name = text_if_known(pool.name)
        pool_zone_count = count_zones(pool.location, region, zone_count)
        nodes = _Nodes(resource, pool, region, pool_zone_count, cluster.has_private_nodes)
        prefix = f"{index if name is None else name}:"
        components += _prefixed(_node_components(nodes, graph), prefix)
    if cluster.default_pool:
        nodes = _Nodes(resource, cluster.default_pool, region, zone_count, cluster.has_private_nodes)
        components += _node_components(nodes, graph)
    return components


def price_gke_node_pool(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a node pool, in its cluster's region."""
    cluster = graph.find_referenced_resource(resource, ("cluster",), CLUSTER)
    inputs = resource.inputs if cluster else inputs_with_location(resource, graph)
    pool, region = parse_gke_node_pool_inputs(inputs), _region_of_inputs(inputs, resource, graph)
    cluster_inputs = inputs_with_location(cluster, graph) if cluster else None
    if cluster and (not region or not pool.location.has_location):
        region = _region_of_inputs(cluster_inputs, cluster, graph)
    zone_count: Decimal | None = None
    cluster_has_private_nodes: bool | UnreadableValue | None = None
    if cluster:
        parsed_cluster = parse_gke_cluster_inputs(cluster_inputs)
        zone_count = count_zones(pool.location, region, count_zones(parsed_cluster.location, region))
        cluster_has_private_nodes = parsed_cluster.has_private_nodes
    elif pool.location.has_location_or_zones:
        zone_count = count_zones(pool.location, region)
    return _node_components(_Nodes(resource, pool, region, zone_count, cluster_has_private_nodes), graph)


def _region_of_inputs(inputs: Any, resource: StateResource, graph: ResourceGraph) -> str:
    """Return the region of the location, or that of the provider if there is none."""
    location = text_if_known(read_input_text(inputs, "location"))
    return gcp_region_of_zone(location.lower()) if location else find_region(resource, graph)


@dataclass(frozen=True)
class _Nodes:
    """The nodes of a pool: the resource that declares them, and where they are.

    ``zone_count`` is None if it is not known in how many zones they are, ``cluster_has_private_nodes`` if the
    cluster is not in the stack.
    """

    resource: StateResource
    pool: GkeNodePoolInputs
    region: str
    zone_count: Decimal | None
    cluster_has_private_nodes: bool | UnreadableValue | None = None


def _parse_private_nodes(inputs: Any, block: str) -> bool | UnreadableValue | None:
    """Return whether nodes have internal addresses only; None if ``block`` does not say so."""
    setting = read_input(inputs, block)
    if not isinstance(setting, UnreadableValue):
        setting = read_input(inputs, block, "enablePrivateNodes")
    return setting if isinstance(setting, (bool, UnreadableValue)) else None


def _parse_preemptible(config: Any) -> bool | UnreadableValue | None:
    """Return whether nodes are spot or preemptible, a marker if that is not known."""
    settings = [read_input(config, key) for key in ("spot", "preemptible")]
    if any(setting is True for setting in settings):
        return True
    return next((setting for setting in settings if isinstance(setting, UnreadableValue)), None)


def _node_components(nodes: _Nodes, graph: ResourceGraph) -> Components:
    pool = nodes.pool
    if pool.hidden_config:
        return [*unpriced_if_unreadable(pool.hidden_config, "its node configuration is", "machine")]
    count = graph.resolve_group_size(nodes.resource, _node_count(pool, nodes.zone_count))
    if count is None:
        return [UnpricedComponent("node pool size is not known until deployment", "machine")]
    terms = graph.purchase_terms_of(nodes.resource, spot=pool.preemptible)
    if pool.is_flex_start:
        machine_type = text_if_known(pool.machine.machine_type)
        name = "its machine" if machine_type is None else machine_type
        machines: Components = [UnpricedComponent(f"{name} {FLEX_START}", "machine")]
    else:
        machines = machine_components(pool.machine, nodes.region, terms, count)
    context = MachinePartContext("gcp", nodes.region, terms.pool, count, terms.billed_hours_per_month)
    components = [
        *machines,
        _boot_disk_component(pool, context),
        *local_ssd_components(pool.machine.machine_type, pool.local_ssd_count, context),
        *image_licence_components(pool.machine),
        *_address_components(nodes, context, is_spot=terms.purchase == "spot"),
    ]
    if pool.preemptible is True or pool.is_flex_start:
        return components
    return with_reservation_claim(components, _reservation_claim(nodes, graph))


def _node_count(pool: GkeNodePoolInputs, zone_count: Decimal | None) -> Range | None:
    """Return the total number of nodes. A pool's own count is per zone."""
    if zone_count is None:
        return None
    count = _times(pool.node_count, zone_count)
    if not pool.is_autoscaled:
        return Range.from_exact_value(zone_count) if count is None else group_size_range(count, count, count)
    if pool.total_minimum is not None or pool.total_maximum is not None:
        return group_size_range(_or_zero(pool.total_minimum), count, pool.total_maximum)
    minimum, maximum = _times(pool.zone_minimum, zone_count), _times(pool.zone_maximum, zone_count)
    return group_size_range(_or_zero(minimum), count, maximum)


def _times(number: Number, factor: Decimal) -> Number:
    return number * factor if isinstance(number, Decimal) else number


def _or_zero(number: Number) -> Number:
    return ZERO if number is None else number


def _boot_disk_component(
    pool: GkeNodePoolInputs, context: MachinePartContext
) -> CostComponent | UnpricedComponent:
    """Return each node's boot disk."""
    if isinstance(pool.disk_size_gib, UnreadableValue) or not isinstance(pool.disk_type, str):
        return UnpricedComponent("boot disk is not known until deployment", "disk:boot")
    size_gib = DEFAULT_DISK_GIB if pool.disk_size_gib is None else pool.disk_size_gib
    return context.make_part_component("disk:boot", pool.disk_type, size_gib)


def _address_components(nodes: _Nodes, context: MachinePartContext, *, is_spot: bool) -> Components:
    """Return the external address that each node has unless nodes are private.

    The pool decides first, then the cluster (cloud.google.com, "About network isolation in GKE", read 2026-11-23).
    """
    is_private = nodes.pool.has_private_nodes
    if is_private is None:
        is_private = nodes.cluster_has_private_nodes
    if is_private is None:
        reason = "its cluster decides whether nodes have external addresses, and is not in this stack"
        return [UnpricedComponent(reason, ADDRESS)]
    if isinstance(is_private, UnreadableValue):
        return [*unpriced_if_unreadable(is_private, "whether nodes have external addresses is", ADDRESS)]
    return [] if is_private else [address_component(Decimal(1), context, is_spot=is_spot)]


def _reservation_claim(nodes: _Nodes, graph: ResourceGraph) -> ReservationClaim | None:
    pool, attributes = nodes.pool, reservation_attributes(nodes.pool.machine)
    if pool.reservation_affinity == "NO_RESERVATION":
        return None
    if pool.reservation_affinity == "SPECIFIC_RESERVATION":
        target = graph.find_referenced_resource(nodes.resource, RESERVATION_PATH, RESERVATION)
        return ReservationClaim(target_urn=target.urn if target else OUTSIDE_STACK, attributes=attributes)
    zones = possible_zones(pool.location)
    return ReservationClaim(
        accepts_open=True,
        zone=next(iter(zones)) if len(zones) == 1 else None,
        attributes=attributes,
        possible_zones=zones,
    )


def _prefixed(components: Components, prefix: str) -> Components:
    return [replace(component, component=f"{prefix}{component.component}") for component in components]
