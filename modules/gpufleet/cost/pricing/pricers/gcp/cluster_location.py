"""Where a GKE cluster or node pool is: its region, and in how many zones its nodes are."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import read_reference, text_if_known
from gpufleet.cost.pricing.pricers.gcp.location import find_region
from gpufleet.cost.pricing.pricers.reader import Reader, Unpriced
from gpufleet.cost.pricing.region import gcp_region_of_zone
from gpufleet.engine import StateResource

# A regional cluster spreads nodes over three zones (cloud.google.com, "Regional clusters", read 2026-11-21). What a
# cluster lists is additional to its own zone; what a pool lists is complete (resource_container_cluster.go.tmpl and
# resource_container_node_pool.go.tmpl of magic-modules: only the first adds its location to the list).
REGIONAL_ZONES = Decimal(3)


def locate(pool: Reader) -> Reader:
    """Return the reader of a cluster or node pool, in its region and with the location that it gets."""
    located = replace(pool, inputs=_add_location(pool.source, pool.graph))
    return located.within(find_location_region(located))


def find_location_region(pool: Reader) -> str:
    """Return the region of the location, or that of the provider if there is none."""
    location = _find_location(pool)
    return gcp_region_of_zone(location) if location else find_region(pool.source, pool.graph)


def count_zones(pool: Reader, cluster: Reader | None) -> Decimal | None:
    """Return in how many zones nodes are: those listed, else the cluster's, else what its location means.

    ``pool`` is the cluster itself for its default pool. None where it is not known.
    """
    try:
        zones = [zone.find_text("") for zone in pool.entries("nodeLocations")]
    except Unpriced:
        return None
    own_zone = _find_own_zone(pool) if pool is cluster else frozenset()
    if zones:
        # A zone that cannot be read counts as one of its own.
        names = {zone.lower() if isinstance(zone, str) else index for index, zone in enumerate(zones)}
        return Decimal(len(names | own_zone))
    if cluster and pool is not cluster:
        return count_zones(cluster, cluster)
    if not _find_location(pool) and pool.has("location"):
        return None
    return Decimal(1) if _find_own_zone(pool) else REGIONAL_ZONES


def find_possible_zones(pool: Reader, cluster: Reader | None) -> frozenset[str]:
    """Return the zones that nodes may be in; empty if one of them is not known."""
    with suppress(Unpriced):
        zones = frozenset(zone.text("").lower() for zone in pool.entries("nodeLocations"))
        return zones | _find_own_zone(pool) if pool is cluster or not zones else zones
    return frozenset()


def _find_location(pool: Reader) -> str:
    return (text_if_known(pool.find_text("location")) or "").lower()


def _find_own_zone(pool: Reader) -> frozenset[str]:
    """Return the zone that the location is; empty for a region."""
    location = _find_location(pool)
    return frozenset({location} if gcp_region_of_zone(location) != location else ())


def _add_location(resource: StateResource, graph: ResourceGraph) -> Any:
    """Return the inputs of a cluster or node pool, with the location that the provider chooses if they have none.

    That is the ``zone`` of the resource or of the provider, never the provider's ``region``: a cluster is regional
    only if the program says so (``GetLocation`` of terraform-provider-google, google/tpgresource/regional_utils.go,
    read 2026-11-23). A deployed cluster has its location in its outputs.
    """
    inputs = resource.inputs
    if inputs.get("location") is not None:
        return inputs
    provider = graph.find_provider_resource(resource)
    places = [read_reference(resource.outputs, "location")]
    places += [read_reference(inputs, key) for key in ("region", "zone")]
    for values in (provider.inputs, provider.outputs) if provider else ():
        places.append(read_reference(values, "zone"))
    location = next((place for place in places if place), None)
    return inputs if location is None else {**inputs, "location": location}
