"""AKS: managed clusters with the agent pools inside them, and agent pools of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.demand import Around, Demand, Findings, Gap
from gpufleet.cost.graph import Graph
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricers import azure_parts
from gpufleet.cost.pricers.azure_machine import claim
from gpufleet.cost.pricers.common import bounds, named, unsaid
from gpufleet.cost.pricers.part_names import ADDRESS, KUBERNETES
from gpufleet.cost.values import WHY, dig, items, number, text
from gpufleet.cost.wording import number as write
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


def cluster(resource: Resource, graph: Graph) -> Findings:
    """Bill a cluster's tier, and the agent pools that it declares and nobody declares beside it."""
    where = azure_parts.region(resource, graph)
    found: Findings = []
    tier = text(resource.inputs, "sku", "tier")
    if isinstance(tier, Marker):
        found.append(Gap(f"its tier is {WHY[tier]}", "control_plane"))
    elif tier not in (None, "Free"):
        around = Around("azure", where, graph.terms(resource).pool)
        found.append(
            around.part("control_plane", KUBERNETES if tier == "Standard" else f"{KUBERNETES}:{tier.lower()}")
        )
    if text(resource.inputs, "sku", "name") == "Automatic":
        found.append(Gap("AKS Automatic adds machines as pods ask for them", "machine:auto"))
    found += unsaid(resource.inputs, "its agent pools are", "machine", "agentPoolProfiles")
    beside = {
        text(pool.inputs, "agentPoolName") for pool in graph.of_kind(POOL) if _is_of(pool, resource, graph)
    }
    for at, each in enumerate(items(resource.inputs, "agentPoolProfiles")):
        name = text(each, "name")
        if name is None or name not in beside:
            prefix = f"{name if isinstance(name, str) else at}:"
            found += _nodes(resource, graph, _Pool(each, ("agentPoolProfiles", at), prefix, where))
    return found


def agent_pool(resource: Resource, graph: Graph) -> Findings:
    """Bill an agent pool, where its cluster is."""
    holder = graph.target(resource, ("resourceName",), CLUSTER)
    where = azure_parts.region(holder, graph) if holder else azure_parts.region(resource, graph)
    return _nodes(resource, graph, _Pool(resource.inputs, (), "", where))


def _is_of(pool: Resource, resource: Resource, graph: Graph) -> bool:
    holder = graph.target(pool, ("resourceName",), CLUSTER)
    return holder is not None and holder.urn == resource.urn


def _nodes(resource: Resource, graph: Graph, pool: _Pool) -> Findings:
    if text(pool.inputs, "powerState", "code") == "Stopped":
        return []
    size, count = named(pool.inputs, "machine size", "vmSize"), graph.sized(resource, _count(pool.inputs))
    if isinstance(size, Gap):
        return [replace(size, component=f"{pool.prefix}machine")]
    if count is None:
        return [Gap("agent pool size is not known until deployment", f"{pool.prefix}machine")]
    priority = text(pool.inputs, "scaleSetPriority")
    spot = priority if priority is None or isinstance(priority, Marker) else priority == "Spot"
    terms = graph.terms(resource, spot=spot)
    most = number(pool.inputs, "spotMaxPrice")  # -1, up to on-demand, is no Decimal
    terms = replace(terms, max_price=most) if isinstance(most, Decimal) else terms
    main = Demand("machine", (size,), "azure", pool.where, count, terms=terms, hours=terms.billed_hours)
    if terms.purchase != "spot":
        main = replace(main, claim=claim(resource, graph, (*pool.path, "capacityReservationGroupID")))
    around = Around("azure", pool.where, terms.pool, count, terms.billed_hours)
    found: Findings = [main, *_disk(pool.inputs)]
    if dig(pool.inputs, "enableNodePublicIP") is True:
        found.append(around.part(ADDRESS, ADDRESS))
    return [replace(item, component=f"{pool.prefix}{item.component}") for item in found]


def _count(inputs: Any) -> Range | None:
    wanted = number(inputs, "count")
    wanted = Decimal(1) if wanted is None else wanted  # the API's own default
    if dig(inputs, "enableAutoScaling") is not True:
        return bounds(wanted, wanted, wanted)
    low = number(inputs, "minCount")
    return bounds(ZERO if low is None else low, wanted, number(inputs, "maxCount"))


def _disk(inputs: Any) -> Findings:
    """Name the nodes' disk: an ephemeral one is part of the machine, else AKS chooses its kind."""
    if text(inputs, "osDiskType") == "Ephemeral":
        return []
    size = number(inputs, "osDiskSizeGB")
    told = f" ({write(size)} GiB a node)" if isinstance(size, Decimal) and size else ""
    return [Gap(f"which disk a node gets is AKS's choice{told}", "disk:os")]
