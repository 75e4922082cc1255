"""AKS: managed clusters with the agent pools inside them, and agent pools of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.formatting import format_number
from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    is_input_true,
    read_input,
    read_input_choice,
    read_input_list,
    read_input_marker,
    read_input_number,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.disk import managed_disk_part
from gpufleet.cost.pricing.pricers.azure.kubernetes_outbound import outbound_components
from gpufleet.cost.pricing.pricers.azure.location import find_region
from gpufleet.cost.pricing.pricers.azure.machine_inputs import (
    make_reservation_claim,
    read_max_spot_price,
    with_max_spot_price,
)
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.licence import system_licence_components
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, KUBERNETES
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced, unpriced_if_unreadable
from gpufleet.engine import StateResource, UnreadableValue

CLUSTER = "azure-native:containerservice:ManagedCluster"
AGENT_POOL = "azure-native:containerservice:AgentPool"
POOLS, RESERVATION = "agentPoolProfiles", "capacityReservationGroupID"
DEFAULT_COUNT = Decimal(1)  # the API's own
DEFAULT_DISK_GIB = {8: 128, 16: 256, 64: 512, 10**6: 1024}  # of a node with fewer vCPUs than the key
_MACHINE_SIZE = re.compile(r"^standard_[a-z]+(\d{1,5})(?:-\d+)?([a-z]*)")


@dataclass(frozen=True)
class AksAgentPoolInputs:
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
    has_managed_disk: bool
    disk_size_gib: Number
    targets_reservation: bool
    system: Text


@dataclass(frozen=True)
class AksClusterInputs:
    """The inputs of a managed cluster, with the agent pools inside it."""

    tier: Text
    is_automatic: bool
    pools: tuple[AksAgentPoolInputs, ...]
    hidden_pools: UnreadableValue | None


def parse_aks_agent_pool_inputs(inputs: Any, path: tuple[str | int, ...] = ()) -> AksAgentPoolInputs:
    """Parse an agent pool."""
    return AksAgentPoolInputs(
        path=path,
        name=read_input_text(inputs, "name" if path else "agentPoolName"),
        is_stopped=read_input_text(inputs, "powerState", "code") == "Stopped",
        size=read_input_text(inputs, "vmSize"),
        priority=read_input_text(inputs, "scaleSetPriority"),
        max_spot_price=read_max_spot_price(inputs, "spotMaxPrice"),
        count=read_input_number(inputs, "count"),
        is_autoscaled=is_input_true(inputs, "enableAutoScaling"),
        minimum=read_input_number(inputs, "minCount"),
        maximum=read_input_number(inputs, "maxCount"),
        has_public_addresses=is_input_true(inputs, "enableNodePublicIP"),
        has_ephemeral_disk=read_input_text(inputs, "osDiskType") == "Ephemeral",
        has_managed_disk=read_input_text(inputs, "osDiskType") == "Managed",
        disk_size_gib=read_input_number(inputs, "osDiskSizeGB"),
        targets_reservation=read_input(inputs, RESERVATION) is not None,
        system=read_input_choice(inputs, ("Linux", "Windows"), "osType"),
    )


def parse_aks_cluster_inputs(inputs: Any) -> AksClusterInputs:
    """Parse a managed cluster."""
    entries = enumerate(read_input_list(inputs, POOLS))
    return AksClusterInputs(
        tier=read_input_text(inputs, "sku", "tier"),
        is_automatic=read_input_text(inputs, "sku", "name") == "Automatic",
        pools=tuple(parse_aks_agent_pool_inputs(entry, (POOLS, index)) for index, entry in entries),
        hidden_pools=read_input_marker(inputs, POOLS),
    )


def price_aks_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a cluster's tier, and those of its agent pools that are not also resources of their own."""
    cluster, region = parse_aks_cluster_inputs(resource.inputs), find_region(resource, graph)
    context = MachinePartContext("azure", region, graph.purchase_terms_of(resource).pool)
    components = [
        *_control_plane_components(cluster, context),
        *outbound_components(resource.inputs, context),
    ]
    separate_names = {
        parse_aks_agent_pool_inputs(pool.inputs).name
        for pool in graph.resources_of_types(AGENT_POOL)
        if _is_pool_of(pool, resource, graph)
    }
    for index, pool in enumerate(cluster.pools):
        if pool.name is None or pool.name not in separate_names:
            name = text_if_known(pool.name)
            prefix = f"{index if name is None else name}:"
            components += agent_pool_components(resource, pool, region, graph, prefix)
    return components


def price_aks_agent_pool(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an agent pool, in its cluster's region."""
    cluster = graph.find_referenced_resource(resource, ("resourceName",), CLUSTER)
    region = find_region(cluster or resource, graph)
    return agent_pool_components(resource, parse_aks_agent_pool_inputs(resource.inputs), region, graph)


def _control_plane_components(cluster: AksClusterInputs, context: MachinePartContext) -> Components:
    components: Components = []
    tier = cluster.tier
    if isinstance(tier, UnreadableValue):
        components.append(UnpricedComponent(f"its tier is {MARKER_REASONS[tier]}", "control_plane"))
    elif tier not in (None, "Free"):
        item = KUBERNETES if tier == "Standard" else f"{KUBERNETES}:{tier.lower()}"
        components.append(context.make_part_component("control_plane", item))
    if cluster.is_automatic:
        reason = "AKS Automatic adds machines as pods ask for them"
        components.append(UnpricedComponent(reason, "machine:auto"))
    return [*components, *unpriced_if_unreadable(cluster.hidden_pools, "its agent pools are", "machine")]


def _is_pool_of(pool: StateResource, cluster: StateResource, graph: ResourceGraph) -> bool:
    target = graph.find_referenced_resource(pool, ("resourceName",), CLUSTER)
    return target is not None and target.urn == cluster.urn


def agent_pool_components(
    resource: StateResource, pool: AksAgentPoolInputs, region: str, graph: ResourceGraph, prefix: str = ""
) -> Components:
    """Return the machines, disks and addresses of an agent pool."""
    if pool.is_stopped:
        return []
    size = text_or_unpriced(pool.size, "machine size", f"{prefix}machine")
    if isinstance(size, UnpricedComponent):
        return [size]
    count = graph.resolve_group_size(resource, _node_count(pool))
    if count is None:
        reason = "agent pool size is not known until deployment"
        return [UnpricedComponent(reason, f"{prefix}machine")]
    is_spot = pool.priority == "Spot" if isinstance(pool.priority, str) else pool.priority
    terms = with_max_spot_price(graph.purchase_terms_of(resource, spot=is_spot), pool.max_spot_price)
    machine = CostComponent(
        "machine", (size,), "azure", region, count, terms=terms, hours_per_month=terms.billed_hours_per_month
    )
    if terms.purchase != "spot" and pool.targets_reservation:
        claim = make_reservation_claim(resource, graph, (*pool.path, RESERVATION))
        machine = replace(machine, claim=claim)
    licences = system_licence_components(text_if_known(pool.system) if pool.system else "Linux")
    context = MachinePartContext("azure", region, terms.pool, count, terms.billed_hours_per_month)
    components: Components = [machine, *_disk_components(pool, size, context), *licences]
    if pool.has_public_addresses:
        components.append(context.make_part_component(ADDRESS, ADDRESS))
    return [replace(each, component=f"{prefix}{each.component}") for each in components]


def _node_count(pool: AksAgentPoolInputs) -> Range | None:
    count = DEFAULT_COUNT if pool.count is None else pool.count
    if not pool.is_autoscaled:
        return group_size_range(count, count, count)
    return group_size_range(ZERO if pool.minimum is None else pool.minimum, count, pool.maximum)


def _disk_components(pool: AksAgentPoolInputs, machine_size: str, context: MachinePartContext) -> Components:
    """Return the disk of each node, without a price if AKS chooses its type; an ephemeral one costs nothing more."""
    if pool.has_ephemeral_disk:
        return []
    size_gib = pool.disk_size_gib
    if pool.has_managed_disk and not isinstance(size_gib, UnreadableValue):
        match = _MACHINE_SIZE.match(machine_size.lower())
        if match and "s" in match[2]:  # its machines take Premium disks, which AKS then uses
            size_gib = size_gib or default_disk_gib(int(match[1]))
            part = managed_disk_part("Premium_LRS", size_gib)
            return [context.make_part_component("disk:os", part)] if part else []
    size = f" ({format_number(size_gib)} GiB a node)" if isinstance(size_gib, Decimal) and size_gib else ""
    return [UnpricedComponent(f"AKS chooses the disk of each node{size}", "disk:os")]


def default_disk_gib(vcpus: int) -> Decimal:
    """Return the size of a node's disk that AKS takes without one (learn.microsoft.com, "Default OS disk sizing")."""
    return next(Decimal(gib) for limit, gib in DEFAULT_DISK_GIB.items() if vcpus < limit)
