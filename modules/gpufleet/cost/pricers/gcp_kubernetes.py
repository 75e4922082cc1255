"""GKE: clusters with the node pools inside them, and node pools of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.demand import Around, Claim, Demand, Findings, Gap
from gpufleet.cost.graph import Graph
from gpufleet.cost.money import Range
from gpufleet.cost.places import gcp_region
from gpufleet.cost.pricers import gcp_parts
from gpufleet.cost.pricers.common import bounds, unsaid
from gpufleet.cost.pricers.gcp_instance import FLEX, RESERVATION, claimed, machine, make
from gpufleet.cost.pricers.part_names import KUBERNETES
from gpufleet.cost.values import dig, items, number, text
from gpufleet.engine import Marker, Resource

CLUSTER = "gcp:container/cluster:Cluster"
# What GKE makes where a program does not say (the provider's documentation of these inputs).
DEFAULT_TYPE, DEFAULT_DISK_GIB, DEFAULT_DISK = "e2-medium", Decimal(100), "pd-balanced"
# A regional cluster spreads nodes over three zones (cloud.google.com, "Regional clusters", read 2026-11-21).
ZONES = Decimal(3)


@dataclass(frozen=True)
class _Pool:
    """A node pool, wherever it is declared: ``zones`` is in how many its nodes are, None where nobody knows."""

    inputs: Any
    prefix: str
    where: str
    zones: Decimal | None


def cluster(resource: Resource, graph: Graph) -> Findings:
    """Bill a cluster's management, and the node pools that it declares itself."""
    where = gcp_parts.region(resource, graph)
    around = Around("gcp", where, graph.terms(resource).pool)
    found: Findings = [around.part("control_plane", KUBERNETES)]
    if dig(resource.inputs, "enableAutopilot") is True:
        return [
            *found,
            Gap("Autopilot bills each pod by what it requests, which no program declares", "pods"),
        ]
    if dig(resource.inputs, "clusterAutoscaling", "enabled") is True:
        found.append(Gap("node auto-provisioning adds machines as pods ask for them", "machine:auto"))
    found += unsaid(resource.inputs, "its node pools are", "machine", "nodePools")
    zones = _zones(resource.inputs, where)
    for at, each in enumerate(items(resource.inputs, "nodePools")):
        name = text(each, "name")
        prefix = f"{name if isinstance(name, str) else at}:"
        found += _nodes(resource, graph, _Pool(each, prefix, where, _zones(each, where, zones)))
    inline = dig(resource.inputs, "nodePools") is not None
    if not inline and dig(resource.inputs, "removeDefaultNodePool") is not True:
        found += _nodes(resource, graph, _Pool(resource.inputs, "", where, zones))
    return found


def node_pool(resource: Resource, graph: Graph) -> Findings:
    """Bill a node pool, where its cluster is."""
    holder = graph.target(resource, ("cluster",), CLUSTER)
    where = gcp_parts.region(resource, graph)
    if not where or (holder and dig(resource.inputs, "location") is None):
        where = gcp_parts.region(holder, graph) if holder else where
    above = _zones(holder.inputs, where) if holder else None
    zoned = _zones(resource.inputs, where, above)
    if (
        holder is None
        and dig(resource.inputs, "location") is None
        and dig(resource.inputs, "nodeLocations") is None
    ):
        zoned = None
    return _nodes(resource, graph, _Pool(resource.inputs, "", where, zoned))


def _zones(inputs: Any, where: str, above: Decimal | None = None) -> Decimal | None:
    """Return in how many zones nodes are: those listed, else the cluster's, else what its location means."""
    listed = dig(inputs, "nodeLocations")
    if isinstance(listed, Marker):
        return None
    location = text(inputs, "location")
    zonal = isinstance(location, str) and gcp_region(location) != location
    if named := items(listed):
        zones = {f"{at}" if isinstance(each, Marker) else str(each) for at, each in enumerate(named)}
        return Decimal(len(zones | ({location} if zonal else set())))
    if above is not None:
        return above
    return Decimal(1) if zonal else ZONES if where else None


def _nodes(resource: Resource, graph: Graph, pool: _Pool) -> Findings:
    if hidden := unsaid(pool.inputs, "what its nodes are is", f"{pool.prefix}machine", "nodeConfig"):
        return [*hidden]
    config = dig(pool.inputs, "nodeConfig") or {}
    count = graph.sized(resource, _count(pool))
    if count is None:
        return [Gap("node pool size is not known until deployment", f"{pool.prefix}machine")]
    spot = dig(config, "spot") is True or dig(config, "preemptible") is True
    unknown = next(
        (each for key in ("spot", "preemptible") if isinstance(each := dig(config, key), Marker)), None
    )
    terms = graph.terms(resource, spot=spot or unknown)
    said = {"machineType": DEFAULT_TYPE, **(config if isinstance(config, dict) else {})}
    flexible = dig(config, "flexStart") is True or dig(pool.inputs, "queuedProvisioning", "enabled") is True
    if flexible:
        kind = text(said, "machineType")
        found: Findings = [Gap(f"{kind if isinstance(kind, str) else 'its machine'} {FLEX}", "machine")]
    else:
        found = machine(said, pool.where, terms, count)
    around = Around("gcp", pool.where, terms.pool, count, terms.billed_hours)
    found += [*_disks(said, around), *gcp_parts.licences(said)]
    if not spot and not flexible:
        found = claimed(found, _claim(resource, graph, said, pool.inputs))
    return [_prefixed(item, pool.prefix) for item in found]


def _count(pool: _Pool) -> Range | None:
    """Return how many nodes there are: per zone as the pool counts them, times its zones."""
    scaling = dig(pool.inputs, "autoscaling")
    wanted = number(pool.inputs, "nodeCount")
    wanted = number(pool.inputs, "initialNodeCount") if wanted is None else wanted
    if pool.zones is None:
        return None
    each = _times(wanted, pool.zones)
    if scaling is None:
        return bounds(each, each, each) if each is not None else Range.of(pool.zones)
    whole = [number(scaling, key) for key in ("totalMinNodeCount", "totalMaxNodeCount")]
    if any(value is not None for value in whole):
        return bounds(Decimal(0) if whole[0] is None else whole[0], each, whole[1])
    low, high = (_times(number(scaling, key), pool.zones) for key in ("minNodeCount", "maxNodeCount"))
    return bounds(Decimal(0) if low is None else low, each, high)


def _times(value: Decimal | Marker | None, zones: Decimal) -> Decimal | Marker | None:
    return value * zones if isinstance(value, Decimal) else value


def _disks(config: Any, around: Around) -> Iterator[Demand | Gap]:
    """Bill each node's boot disk and local SSDs."""
    size = number(config, "diskSizeGb")
    size = number(config, "bootDisk", "sizeGb") if size is None else size
    kind = text(config, "diskType") or text(config, "bootDisk", "diskType") or DEFAULT_DISK
    if isinstance(size, Marker) or isinstance(kind, Marker):
        yield Gap("boot disk is not known until deployment", "disk:boot")
    else:
        yield around.part("disk:boot", kind, DEFAULT_DISK_GIB if size is None else size)
    counts = [number(config, *path) for path in gcp_parts.NODE_DISKS]
    asked = sum(int(cards) for cards in counts if isinstance(cards, Decimal))
    yield from gcp_parts.scratch(config, asked, around)


def _claim(resource: Resource, graph: Graph, config: Any, held: Any) -> Claim | None:
    affinity = dig(config, "reservationAffinity")
    said = text(affinity, "consumeReservationType")
    if said == "NO_RESERVATION":
        return None
    if said == "SPECIFIC_RESERVATION":
        path = ("nodeConfig", "reservationAffinity", "values", 0)
        target = graph.target(resource, path, RESERVATION)
        return Claim(target=target.urn if target else "outside this stack", make=make(config))
    listed = items(held, "nodeLocations")
    seen = all(isinstance(each, str) for each in listed)
    among = frozenset(each for each in listed if seen)
    location = text(held, "location")
    if isinstance(location, str) and gcp_region(location) != location:
        among |= {location} if seen else set()
    return Claim(
        open=True, zone=next(iter(among)) if len(among) == 1 else None, make=make(config), among=among
    )


def _prefixed(item: Demand | Gap, prefix: str) -> Demand | Gap:
    return replace(item, component=f"{prefix}{item.component}") if prefix else item
