"""GKE: clusters with the node pools inside them, and node pools of their own."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.inputs.values import Number, text_if_known
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import ReservationClaim
from gpufleet.cost.pricing.pricers.gcp.cluster_location import (
    count_zones,
    find_location_region,
    find_possible_zones,
    locate,
)
from gpufleet.cost.pricing.pricers.gcp.disk import NODE_DISK_INTERFACES, list_local_ssds
from gpufleet.cost.pricing.pricers.gcp.location import last_url_segment, pricer
from gpufleet.cost.pricing.pricers.gcp.machine import (
    OUTSIDE_STACK,
    RESERVATION,
    find_any_flag,
    find_machine_type,
    find_reservation_attributes,
    list_image_licence,
    list_machine,
    make_address,
    with_default_type,
    with_reservation_claim,
)
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, KUBERNETES
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import StateResource

CLUSTER = "gcp:container/cluster:Cluster"
# What GKE makes where a program has no setting (the provider's documentation of these inputs).
DEFAULT_TYPE, DEFAULT_DISK_GIB, DEFAULT_DISK = "e2-medium", 100, "pd-balanced"


@pricer("gcp:container/cluster:Cluster")
def price_gke_cluster(cluster: Reader) -> Parts:
    """Yield a cluster's management fee, and the node pools that it declares itself."""
    located = locate(cluster)
    yield located.of("control_plane").kept(KUBERNETES)
    with located.of("pods") as pods:
        if pods.flag("enableAutopilot"):
            raise pods.refuse(
                "Autopilot bills each pod by what it requests, which the program does not declare"
            )
    if located.find_flag("enableAutopilot") is True:
        return
    with located.of("machine:auto") as machines:
        if machines.flag("clusterAutoscaling.enabled"):
            raise machines.refuse("node auto-provisioning adds machines as pods ask for them")
    with located.of("machine") as machines:
        for index, pool in enumerate(machines.entries("nodePools", "its node pools are")):
            name = text_if_known(pool.find_text("name"))
            prefix = f"{index if name is None else name}:"
            yield from _list_nodes(pool.prefixed(prefix), located, f"nodePools.{index}.")
    if not located.has("nodePools") and located.find_flag("removeDefaultNodePool") is not True:
        yield from _list_nodes(located, located)


@pricer("gcp:container/nodePool:NodePool")
def price_gke_node_pool(pool: Reader) -> Parts:
    """Yield a node pool, in its cluster's region."""
    resource = pool.find_resource("cluster", CLUSTER) or _find_cluster_by_own_name(pool)
    if resource is None:
        return _list_nodes(locate(pool), None)
    cluster = locate(pool.reading(resource))
    region = find_location_region(pool) if pool.has("location") else ""
    return _list_nodes(pool.within(region or cluster.region), cluster)


def _find_cluster_by_own_name(pool: Reader) -> StateResource | None:
    """Return the one cluster whose name in the program is what the pool names, where no input names the cluster."""
    named = last_url_segment(text_if_known(pool.find_text("cluster")) or "")
    found = [
        each
        for each in pool.graph.resources_of_types(CLUSTER)
        if each.name == named and not pool.reading(each).has("name")
    ]
    return found[0] if named and len(found) == 1 else None


def _list_nodes(pool: Reader, cluster: Reader | None, place: str = "") -> Parts:
    """Yield the nodes of a pool with their disks and addresses; the cluster is None if it is not in the stack.

    ``place`` is where the resource has the inputs of the pool.
    """
    with pool.of("machine") as machine:
        config = machine.inside("nodeConfig", "its node configuration")
        nodes = (
            with_default_type(config, DEFAULT_TYPE)
            .bought(spot=find_any_flag(config, "spot", "preemptible"))
            .times(lambda: pool.resize(_find_declared_size(pool, cluster), "node pool size"))
        )
        is_flex_start = True in (config.find_flag("flexStart"), pool.find_flag("queuedProvisioning.enabled"))
        claim = None if is_flex_start else _find_reservation_claim(pool, cluster, nodes, place)
        local_ssds = list_local_ssds(nodes, find_machine_type(nodes), _count_local_ssds)
        yield from with_reservation_claim(list_machine(nodes, is_flex_start=is_flex_start), claim)
        yield from with_reservation_claim(local_ssds, claim)
        yield from _list_boot_disk(nodes)
        yield from list_image_licence(nodes)
        yield from _list_addresses(pool, cluster, nodes)


def _find_declared_size(pool: Reader, cluster: Reader | None) -> Range | None:
    """Return the total number of nodes, None if it is not known. A pool's own count and bounds are per zone."""
    has_place = cluster or pool.has("location") or pool.find_count("nodeLocations")
    zones = count_zones(pool, cluster) if has_place else None
    if zones is None:
        return None
    count = _times(pool.find_number("nodeCount" if pool.has("nodeCount") else "initialNodeCount"), zones)
    if not pool.has("autoscaling"):
        return Range.from_exact_value(zones) if count is None else group_size_range(count, count, count)
    bounds = [pool.find_number(f"autoscaling.total{bound}NodeCount") for bound in ("Min", "Max")]
    if bounds == [None, None]:
        bounds = [
            _times(pool.find_number(f"autoscaling.{bound}NodeCount"), zones) for bound in ("min", "max")
        ]
    minimum, maximum = bounds
    return group_size_range(ZERO if minimum is None else minimum, count, maximum)


def _times(number: Number, factor: Decimal) -> Number:
    return number * factor if isinstance(number, Decimal) else number


def _list_boot_disk(nodes: Reader) -> Parts:
    """Yield each node's boot disk."""
    with nodes.of("disk:boot") as disk:
        kind = disk.text("diskType or bootDisk.diskType", "type of its boot disk", DEFAULT_DISK)
        size = disk.number("diskSizeGb or bootDisk.sizeGb", "size of its boot disk", DEFAULT_DISK_GIB)
        yield disk.part(kind, size=size)


def _count_local_ssds(nodes: Reader) -> Decimal:
    return sum((nodes.number(path, default=0) for path in NODE_DISK_INTERFACES), ZERO)


def _list_addresses(pool: Reader, cluster: Reader | None, nodes: Reader) -> Parts:
    """Yield the external address that each node has unless nodes are private.

    The pool decides first, then the cluster (cloud.google.com, "About network isolation in GKE", read 2026-11-23).
    """
    with nodes.of(ADDRESS) as address:
        is_private = pool.find_flag("networkConfig.enablePrivateNodes")
        if is_private is None and cluster is None:
            raise address.refuse(
                "its cluster decides whether nodes have external addresses, and is not in this stack"
            )
        if is_private is None and cluster:
            is_private = cluster.find_flag("privateClusterConfig.enablePrivateNodes") or False
        if not address.known(is_private, "whether nodes have external addresses"):
            yield make_address(address)


def _find_reservation_claim(
    pool: Reader, cluster: Reader | None, nodes: Reader, place: str
) -> ReservationClaim | None:
    """Return the reservation that nodes target, else any open one that matches; spot uses none."""
    affinity = nodes.find_text("reservationAffinity.consumeReservationType")
    if affinity == "NO_RESERVATION" or nodes.terms.purchase == "spot":
        return None
    attributes = find_reservation_attributes(nodes)
    if affinity == "SPECIFIC_RESERVATION":
        target = pool.find_resource(f"{place}nodeConfig.reservationAffinity.values.0", RESERVATION)
        return ReservationClaim(target_urn=target.urn if target else OUTSIDE_STACK, attributes=attributes)
    zones = find_possible_zones(pool, cluster)
    zone = next(iter(zones)) if len(zones) == 1 else None
    return ReservationClaim(accepts_open=True, zone=zone, attributes=attributes, possible_zones=zones)
