"""Where a GKE cluster or node pool is: its region, and in how many zones its nodes are."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    read_input,
    read_input_list,
    read_input_marker,
    read_reference,
    text_if_known,
)
from gpufleet.cost.pricing.region import gcp_region_of_zone
from gpufleet.engine import StateResource, UnreadableValue

# A regional cluster spreads nodes over three zones (cloud.google.com, "Regional clusters", read 2026-11-21).
REGIONAL_ZONES = Decimal(3)


@dataclass(frozen=True)
class GkeLocationInputs:
    """Where a cluster or node pool says that its nodes are. ``zone_count`` is of the zones it lists."""

    location: str | None
    has_location: bool
    zone_count: int
    zones: frozenset[str]
    hidden_zones: bool

    @property
    def is_zonal(self) -> bool:
        """True if the location is a zone and not a region."""
        return self.location is not None and gcp_region_of_zone(self.location) != self.location

    @property
    def has_location_or_zones(self) -> bool:
        """True if the program gives a location or zones."""
        return self.has_location or self.zone_count > 0 or self.hidden_zones


def parse_gke_location_inputs(inputs: Any) -> GkeLocationInputs:
    """Parse the location and the zones of a cluster or node pool."""
    zones = read_input_list(inputs, "nodeLocations")
    known_location = text_if_known(read_reference(inputs, "location"))
    known_location = known_location and known_location.lower()
    zones = [each.lower() if isinstance(each, str) else each for each in zones]
    names = {
        f"{index}" if isinstance(each, UnreadableValue) else str(each) for index, each in enumerate(zones)
    }
    is_zonal = known_location is not None and gcp_region_of_zone(known_location) != known_location
    return GkeLocationInputs(
        location=known_location,
        has_location=read_input(inputs, "location") is not None,
        zone_count=len(names | ({known_location} if is_zonal else set())) if zones else 0,
        zones=frozenset(zones) if all(isinstance(each, str) for each in zones) else frozenset(),
        hidden_zones=read_input_marker(inputs, "nodeLocations") is not None,
    )


def inputs_with_location(resource: StateResource, graph: ResourceGraph) -> Any:
    """Return the inputs of a cluster or node pool, with the location that the provider chooses if they have none.

    That is the ``zone`` of the resource or of the provider, never the provider's ``region``: a cluster is regional
    only if the program says so (``GetLocation`` of terraform-provider-google, google/tpgresource/regional_utils.go,
    read 2026-11-23). A deployed cluster has its location in its outputs.
    """
    inputs = resource.inputs
    if read_input(inputs, "location") is not None or not isinstance(inputs, dict):
        return inputs
    provider = graph.find_provider_resource(resource)
    places = [read_reference(resource.outputs, "location"), read_reference(inputs, "region")]
    places.append(read_reference(inputs, "zone"))
    places += (
        [read_reference(values, "zone") for values in (provider.inputs, provider.outputs)] if provider else []
    )
    location = next((place for place in places if place), None)
    return inputs if location is None else {**inputs, "location": location}


def count_zones(location: GkeLocationInputs, region: str, inherited: Decimal | None = None) -> Decimal | None:
    """Return in how many zones nodes are: those listed, else the cluster's, else what its location means."""
    if location.hidden_zones:
        return None
    if location.zone_count:
        return Decimal(location.zone_count)
    if inherited is not None:
        return inherited
    if location.is_zonal:
        return Decimal(1)
    return REGIONAL_ZONES if region else None


def possible_zones(location: GkeLocationInputs) -> frozenset[str]:
    """Return the zones that nodes may be in; empty if one of them is not known."""
    if location.location is None or not location.is_zonal:
        return location.zones
    all_known = bool(location.zones) or not location.zone_count
    return location.zones | {location.location} if all_known else location.zones
