"""AKS: managed clusters with the agent pools inside them, and agent pools of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.formatting import format_number
from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    is_true,
    known_text,
    read_list,
    read_marker,
    read_number,
    read_text,
    read_value,
)
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import find_region
from gpufleet.cost.pricing.pricers.azure.machine_inputs import reservation_claim, with_max_price
from gpufleet.cost.pricing.pricers.group_size import size_range
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, KUBERNETES
from gpufleet.cost.pricing.pricers.required_input import require_text, unreadable_components
from gpufleet.engine import StateResource, ValueMarker

CLUSTER = "azure-native:containerservice:ManagedCluster"
AGENT_POOL = "azure-native:containerservice:AgentPool"
POOLS, RESERVATION = "agentPoolProfiles", "capacityReservationGroupID"
DEFAULT_COUNT = Decimal(1)  # the API's own


@dataclass(frozen=True)
class AgentPoolInputs:
    """An agent pool, in a cluster or a resource of its own.

    ``path`` leads to it in the resource's inputs. ``targets_reservation`` is whether it names a capacity
    reservation group.
    """

    path: tuple[str | int, ...]
    name: Text
    is_stopped: bool
    size: Text
    priority: Text
    max_spot_price: Number
    count: Number
    is_autoscaled: bool
    minimum: Number
    maximum: Number
    has_public_addresses: bool
    has_ephemeral_disk: bool
    disk_size_gib: Number
    targets_reservation: bool


@dataclass(frozen=True)
class ClusterInputs:
    """The inputs of a managed cluster, with the agent pools inside it."""

    tier: Text
    is_automatic: bool
    pools: tuple[AgentPoolInputs, ...]
    hidden_pools: ValueMarker | None


def parse_agent_pool(inputs: Any, path: tuple[str | int, ...] = ()) -> AgentPoolInputs:
    """Parse an agent pool."""
    return AgentPoolInputs(
        path=path,
        name=read_text(inputs, "name" if path else "agentPoolName"),
        is_stopped=read_text(inputs, "powerState", "code") == "Stopped",
        size=read_text(inputs, "vmSize"),
        priority=read_text(inputs, "scaleSetPriority"),
        max_spot_price=read_number(inputs, "spotMaxPrice"),
        count=read_number(inputs, "count"),
        is_autoscaled=is_true(inputs, "enableAutoScaling"),
        minimum=read_number(inputs, "minCount"),
        maximum=read_number(inputs, "maxCount"),
        has_public_addresses=is_true(inputs, "enableNodePublicIP"),
        has_ephemeral_disk=read_text(inputs, "osDiskType") == "Ephemeral",
        disk_size_gib=read_number(inputs, "osDiskSizeGB"),
        targets_reservation=read_value(inputs, RESERVATION) is not None,
    )


def parse_cluster(inputs: Any) -> ClusterInputs:
    """Parse a managed cluster."""
    entries = enumerate(read_list(inputs, POOLS))
    return ClusterInputs(
        tier=read_text(inputs, "sku", "tier"),
        is_automatic=read_text(inputs, "sku", "name") == "Automatic",
        pools=tuple(parse_agent_pool(entry, (POOLS, index)) for index, entry in entries),
        hidden_pools=read_marker(inputs, POOLS),
    )


def price_cluster(resource: StateResource, graph: Graph) -> Components:
    """Return a cluster's tier, and those of its agent pools that are not also resources of their own."""
    cluster, region = parse_cluster(resource.inputs), find_region(resource, graph)
    components = _control_plane_components(resource, cluster, region, graph)
    separate_names = {
        parse_agent_pool(pool.inputs).name
        for pool in graph.resources_of_type(AGENT_POOL)
        if _is_pool_of(pool, resource, graph)
    }
    for index, pool in enumerate(cluster.pools):
        if pool.name is None or pool.name not in separate_names:
            name = known_text(pool.name)
            prefix = f"{index if name is None else name}:"
            components += _pool_components(resource, pool, region, graph, prefix)
    return components


def price_agent_pool(resource: StateResource, graph: Graph) -> Components:
    """Return an agent pool, in its cluster's region."""
    cluster = graph.find_target(resource, ("resourceName",), CLUSTER)
    region = find_region(cluster or resource, graph)
    return _pool_components(resource, parse_agent_pool(resource.inputs), region, graph)


def _control_plane_components(
    resource: StateResource, cluster: ClusterInputs, region: str, graph: Graph
) -> Components:
    components: Components = []
    tier = cluster.tier
    if isinstance(tier, ValueMarker):
        components.append(UnpricedComponent(f"its tier is {MARKER_REASONS[tier]}", "control_plane"))
    elif tier not in (None, "Free"):
        context = PartContext("azure", region, graph.terms_of(resource).pool)
        item = KUBERNETES if tier == "Standard" else f"{KUBERNETES}:{tier.lower()}"
        components.append(context.part_component("control_plane", item))
    if cluster.is_automatic:
        reason = "AKS Automatic adds machines as pods ask for them"
        components.append(UnpricedComponent(reason, "machine:auto"))
    return [*components, *unreadable_components(cluster.hidden_pools, "its agent pools are", "machine")]


def _is_pool_of(pool: StateResource, cluster: StateResource, graph: Graph) -> bool:
    target = graph.find_target(pool, ("resourceName",), CLUSTER)
    return target is not None and target.urn == cluster.urn


def _pool_components(
    resource: StateResource, pool: AgentPoolInputs, region: str, graph: Graph, prefix: str = ""
) -> Components:
    if pool.is_stopped:
        return []
    size = require_text(pool.size, "machine size", f"{prefix}machine")
    if isinstance(size, UnpricedComponent):
        return [size]
    count = graph.resolve_size(resource, _node_count(pool))
    if count is None:
        reason = "agent pool size is not known until deployment"
        return [UnpricedComponent(reason, f"{prefix}machine")]
    is_spot = pool.priority == "Spot" if isinstance(pool.priority, str) else pool.priority
    terms = with_max_price(graph.terms_of(resource, spot=is_spot), pool.max_spot_price)
    machine = CostComponent(
        "machine", (size,), "azure", region, count, terms=terms, hours_per_month=terms.billed_hours
    )
    if terms.purchase != "spot" and pool.targets_reservation:
        claim = reservation_claim(resource, graph, (*pool.path, RESERVATION))
        machine = replace(machine, claim=claim)
    components: Components = [machine, *_disk_components(pool)]
    if pool.has_public_addresses:
        context = PartContext("azure", region, terms.pool, count, terms.billed_hours)
        components.append(context.part_component(ADDRESS, ADDRESS))
    return [replace(each, component=f"{prefix}{each.component}") for each in components]


def _node_count(pool: AgentPoolInputs) -> Range | None:
    count = DEFAULT_COUNT if pool.count is None else pool.count
    if not pool.is_autoscaled:
        return size_range(count, count, count)
    return size_range(ZERO if pool.minimum is None else pool.minimum, count, pool.maximum)


def _disk_components(pool: AgentPoolInputs) -> Components:
    """Return the nodes' disk without a price: AKS chooses its type. An ephemeral one is part of the machine."""
    if pool.has_ephemeral_disk:
        return []
    size_gib = pool.disk_size_gib
    size = f" ({format_number(size_gib)} GiB a node)" if isinstance(size_gib, Decimal) and size_gib else ""
    return [UnpricedComponent(f"AKS chooses the disk of each node{size}", "disk:os")]
