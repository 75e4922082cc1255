"""AKS: managed clusters with the agent pools inside them, and agent pools of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.formatting import number as write
from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import MARKER_REASONS, read_list, read_number, read_text, read_value
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers import azure_parts
from gpufleet.cost.pricing.pricers.azure_machine import claim
from gpufleet.cost.pricing.pricers.common import bounds, named, unsaid
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, KUBERNETES
from gpufleet.engine import Marker, Resource

CLUSTER = "azure-native:containerservice:ManagedCluster"
POOL = "azure-native:containerservice:AgentPool"


@dataclass(frozen=True)
class _Pool:
    """An agent pool, wherever it is declared."""

    inputs: Any
    path: tuple[str | int, ...]
    prefix: str
    where: str


def cluster(resource: Resource, graph: Graph) -> Components:
    """Bill a cluster's tier, and the agent pools that it declares and nobody declares beside it."""
    where = azure_parts.region(resource, graph)
    found: Components = []
    tier = read_text(resource.inputs, "sku", "tier")
    if isinstance(tier, Marker):
        found.append(UnpricedComponent(f"its tier is {MARKER_REASONS[tier]}", "control_plane"))
    elif tier not in (None, "Free"):
        around = PartContext("azure", where, graph.terms_of(resource).pool)
        found.append(
            around.part_component(
                "control_plane", KUBERNETES if tier == "Standard" else f"{KUBERNETES}:{tier.lower()}"
            )
        )
    if read_text(resource.inputs, "sku", "name") == "Automatic":
        found.append(UnpricedComponent("AKS Automatic adds machines as pods ask for them", "machine:auto"))
    found += unsaid(resource.inputs, "its agent pools are", "machine", "agentPoolProfiles")
    beside = {
        read_text(pool.inputs, "agentPoolName")
        for pool in graph.resources_of_type(POOL)
        if _is_of(pool, resource, graph)
    }
    for at, each in enumerate(read_list(resource.inputs, "agentPoolProfiles")):
        name = read_text(each, "name")
        if name is None or name not in beside:
            prefix = f"{name if isinstance(name, str) else at}:"
            found += _nodes(resource, graph, _Pool(each, ("agentPoolProfiles", at), prefix, where))
    return found


def agent_pool(resource: Resource, graph: Graph) -> Components:
    """Bill an agent pool, where its cluster is."""
    holder = graph.find_target(resource, ("resourceName",), CLUSTER)
    where = azure_parts.region(holder, graph) if holder else azure_parts.region(resource, graph)
    return _nodes(resource, graph, _Pool(resource.inputs, (), "", where))


def _is_of(pool: Resource, resource: Resource, graph: Graph) -> bool:
    holder = graph.find_target(pool, ("resourceName",), CLUSTER)
    return holder is not None and holder.urn == resource.urn


def _nodes(resource: Resource, graph: Graph, pool: _Pool) -> Components:
    if read_text(pool.inputs, "powerState", "code") == "Stopped":
        return []
    size, count = (
        named(pool.inputs, "machine size", "vmSize"),
        graph.resolve_size(resource, _count(pool.inputs)),
    )
    if isinstance(size, UnpricedComponent):
        return [replace(size, component=f"{pool.prefix}machine")]
    if count is None:
        return [UnpricedComponent("agent pool size is not known until deployment", f"{pool.prefix}machine")]
    priority = read_text(pool.inputs, "scaleSetPriority")
    spot = priority if priority is None or isinstance(priority, Marker) else priority == "Spot"
    terms = graph.terms_of(resource, spot=spot)
    most = read_number(pool.inputs, "spotMaxPrice")  # -1, up to on-demand, is no Decimal
    terms = replace(terms, max_price=most) if isinstance(most, Decimal) else terms
    main = CostComponent(
        "machine", (size,), "azure", pool.where, count, terms=terms, hours_per_month=terms.billed_hours
    )
    if terms.purchase != "spot":
        main = replace(main, claim=claim(resource, graph, (*pool.path, "capacityReservationGroupID")))
    around = PartContext("azure", pool.where, terms.pool, count, terms.billed_hours)
    found: Components = [main, *_disk(pool.inputs)]
    if read_value(pool.inputs, "enableNodePublicIP") is True:
        found.append(around.part_component(ADDRESS, ADDRESS))
    return [replace(item, component=f"{pool.prefix}{item.component}") for item in found]


def _count(inputs: Any) -> Range | None:
    wanted = read_number(inputs, "count")
    wanted = Decimal(1) if wanted is None else wanted  # the API's own default
    if read_value(inputs, "enableAutoScaling") is not True:
        return bounds(wanted, wanted, wanted)
    low = read_number(inputs, "minCount")
    return bounds(ZERO if low is None else low, wanted, read_number(inputs, "maxCount"))


def _disk(inputs: Any) -> Components:
    """Name the nodes' disk: an ephemeral one is part of the machine, else AKS chooses its kind."""
    if read_text(inputs, "osDiskType") == "Ephemeral":
        return []
    size = read_number(inputs, "osDiskSizeGB")
    told = f" ({write(size)} GiB a node)" if isinstance(size, Decimal) and size else ""
    return [UnpricedComponent(f"which disk a node gets is AKS's choice{told}", "disk:os")]
