"""GKE: clusters with the node pools inside them, and node pools of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import read_list, read_number, read_text, read_value
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    PartContext,
    ReservationClaim,
    UnpricedComponent,
)
from gpufleet.cost.pricing.pricers import gcp_parts
from gpufleet.cost.pricing.pricers.common import bounds, unsaid
from gpufleet.cost.pricing.pricers.gcp_instance import FLEX, RESERVATION, claimed, machine, make
from gpufleet.cost.pricing.pricers.part_names import KUBERNETES
from gpufleet.cost.pricing.region import gcp_region
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


def cluster(resource: Resource, graph: Graph) -> Components:
    """Bill a cluster's management, and the node pools that it declares itself."""
    where = gcp_parts.region(resource, graph)
    around = PartContext("gcp", where, graph.terms_of(resource).pool)
    found: Components = [around.part_component("control_plane", KUBERNETES)]
    if read_value(resource.inputs, "enableAutopilot") is True:
        return [
            *found,
            UnpricedComponent(
                "Autopilot bills each pod by what it requests, which no program declares", "pods"
            ),
        ]
    if read_value(resource.inputs, "clusterAutoscaling", "enabled") is True:
        found.append(
            UnpricedComponent("node auto-provisioning adds machines as pods ask for them", "machine:auto")
        )
    found += unsaid(resource.inputs, "its node pools are", "machine", "nodePools")
    zones = _zones(resource.inputs, where)
    for at, each in enumerate(read_list(resource.inputs, "nodePools")):
        name = read_text(each, "name")
        prefix = f"{name if isinstance(name, str) else at}:"
        found += _nodes(resource, graph, _Pool(each, prefix, where, _zones(each, where, zones)))
    inline = read_value(resource.inputs, "nodePools") is not None
    if not inline and read_value(resource.inputs, "removeDefaultNodePool") is not True:
        found += _nodes(resource, graph, _Pool(resource.inputs, "", where, zones))
    return found


def node_pool(resource: Resource, graph: Graph) -> Components:
    """Bill a node pool, where its cluster is."""
    holder = graph.find_target(resource, ("cluster",), CLUSTER)
    where = gcp_parts.region(resource, graph)
    if not where or (holder and read_value(resource.inputs, "location") is None):
        where = gcp_parts.region(holder, graph) if holder else where
    above = _zones(holder.inputs, where) if holder else None
    zoned = _zones(resource.inputs, where, above)
    if (
        holder is None
        and read_value(resource.inputs, "location") is None
        and read_value(resource.inputs, "nodeLocations") is None
    ):
        zoned = None
    return _nodes(resource, graph, _Pool(resource.inputs, "", where, zoned))


def _zones(inputs: Any, where: str, above: Decimal | None = None) -> Decimal | None:
    """Return in how many zones nodes are: those listed, else the cluster's, else what its location means."""
    listed = read_value(inputs, "nodeLocations")
    if isinstance(listed, Marker):
        return None
    location = read_text(inputs, "location")
    zonal = isinstance(location, str) and gcp_region(location) != location
    if named := read_list(listed):
        zones = {f"{at}" if isinstance(each, Marker) else str(each) for at, each in enumerate(named)}
        return Decimal(len(zones | ({location} if zonal else set())))
    if above is not None:
        return above
    return Decimal(1) if zonal else ZONES if where else None


def _nodes(resource: Resource, graph: Graph, pool: _Pool) -> Components:
    if hidden := unsaid(pool.inputs, "what its nodes are is", f"{pool.prefix}machine", "nodeConfig"):
        return [*hidden]
    config = read_value(pool.inputs, "nodeConfig") or {}
    count = graph.resolve_size(resource, _count(pool))
    if count is None:
        return [UnpricedComponent("node pool size is not known until deployment", f"{pool.prefix}machine")]
    spot = read_value(config, "spot") is True or read_value(config, "preemptible") is True
    unknown = next(
        (each for key in ("spot", "preemptible") if isinstance(each := read_value(config, key), Marker)), None
    )
    terms = graph.terms_of(resource, spot=spot or unknown)
    said = {"machineType": DEFAULT_TYPE, **(config if isinstance(config, dict) else {})}
    flexible = (
        read_value(config, "flexStart") is True
        or read_value(pool.inputs, "queuedProvisioning", "enabled") is True
    )
    if flexible:
        kind = read_text(said, "machineType")
        found: Components = [
            UnpricedComponent(f"{kind if isinstance(kind, str) else 'its machine'} {FLEX}", "machine")
        ]
    else:
        found = machine(said, pool.where, terms, count)
    around = PartContext("gcp", pool.where, terms.pool, count, terms.billed_hours)
    found += [*_disks(said, around), *gcp_parts.licences(said)]
    if not spot and not flexible:
        found = claimed(found, _claim(resource, graph, said, pool.inputs))
    return [_prefixed(item, pool.prefix) for item in found]


def _count(pool: _Pool) -> Range | None:
    """Return how many nodes there are: per zone as the pool counts them, times its zones."""
    scaling = read_value(pool.inputs, "autoscaling")
    wanted = read_number(pool.inputs, "nodeCount")
    wanted = read_number(pool.inputs, "initialNodeCount") if wanted is None else wanted
    if pool.zones is None:
        return None
    each = _times(wanted, pool.zones)
    if scaling is None:
        return bounds(each, each, each) if each is not None else Range.of(pool.zones)
    whole = [read_number(scaling, key) for key in ("totalMinNodeCount", "totalMaxNodeCount")]
    if any(value is not None for value in whole):
        return bounds(Decimal(0) if whole[0] is None else whole[0], each, whole[1])
    low, high = (_times(read_number(scaling, key), pool.zones) for key in ("minNodeCount", "maxNodeCount"))
    return bounds(Decimal(0) if low is None else low, each, high)


def _times(value: Decimal | Marker | None, zones: Decimal) -> Decimal | Marker | None:
    return value * zones if isinstance(value, Decimal) else value


def _disks(config: Any, around: PartContext) -> Iterator[CostComponent | UnpricedComponent]:
    """Bill each node's boot disk and local SSDs."""
    size = read_number(config, "diskSizeGb")
    size = read_number(config, "bootDisk", "sizeGb") if size is None else size
    kind = read_text(config, "diskType") or read_text(config, "bootDisk", "diskType") or DEFAULT_DISK
    if isinstance(size, Marker) or isinstance(kind, Marker):
        yield UnpricedComponent("boot disk is not known until deployment", "disk:boot")
    else:
        yield around.part_component("disk:boot", kind, DEFAULT_DISK_GIB if size is None else size)
    counts = [read_number(config, *path) for path in gcp_parts.NODE_DISKS]
    asked = sum(int(cards) for cards in counts if isinstance(cards, Decimal))
    yield from gcp_parts.scratch(config, asked, around)


def _claim(resource: Resource, graph: Graph, config: Any, held: Any) -> ReservationClaim | None:
    affinity = read_value(config, "reservationAffinity")
    said = read_text(affinity, "consumeReservationType")
    if said == "NO_RESERVATION":
        return None
    if said == "SPECIFIC_RESERVATION":
        path = ("nodeConfig", "reservationAffinity", "values", 0)
        target = graph.find_target(resource, path, RESERVATION)
        return ReservationClaim(
            target_urn=target.urn if target else "outside this stack", attributes=make(config)
        )
    listed = read_list(held, "nodeLocations")
    seen = all(isinstance(each, str) for each in listed)
    among = frozenset(each for each in listed if seen)
    location = read_text(held, "location")
    if isinstance(location, str) and gcp_region(location) != location:
        among |= {location} if seen else set()
    return ReservationClaim(
        accepts_open=True,
        zone=next(iter(among)) if len(among) == 1 else None,
        attributes=make(config),
        possible_zones=among,
    )


def _prefixed(item: CostComponent | UnpricedComponent, prefix: str) -> CostComponent | UnpricedComponent:
    return replace(item, component=f"{prefix}{item.component}") if prefix else item
