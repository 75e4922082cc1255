"""Where a Google Cloud resource is."""

from __future__ import annotations

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Text, read_reference
from gpufleet.cost.pricing.pricers.reader import PricerRegistry
from gpufleet.cost.pricing.region import describe_hidden_region, find_place_sources, gcp_region_of_zone
from gpufleet.engine import StateResource, UnreadableValue

DATASET, TABLE = "gcp:bigquery/dataset:Dataset", "gcp:bigquery/table:Table"
DEFAULT_DATASET_LOCATION = "us"  # the multi-region (cloud.google.com/bigquery/docs/locations)
FIRESTORE = "gcp:firestore/database:Database"


def parse_region_or_zone(resource: StateResource) -> Text:
    """Parse the region, else the zone or location, of a resource or a provider; an unreadable one if none is known."""
    names = [read_reference(resource.inputs, key) for key in ("region", "zone", "location")]
    marker = next((name for name in names if isinstance(name, UnreadableValue)), None)
    if marker is None:
        names += [read_reference(resource.outputs, key) for key in ("region", "zone")]
    return next((name for name in names if isinstance(name, str)), marker)


def find_region(resource: StateResource, graph: ResourceGraph) -> str:
    """Return the region: the resource's own, its zone's, its provider's or the default.

    Empty if nothing names one; a description, in which no price is, if it is not known until deployment or secret.
    Buckets show their places in capitals (US-CENTRAL1), and programs copy that; prices have us-central1.
    """
    place = parse_region_or_zone(resource)
    if isinstance(place, UnreadableValue):
        sources = find_place_sources(resource, parse_region_or_zone, graph)
        regions = {find_region(each, graph) for each in sources}
        return regions.pop() if len(regions) == 1 else describe_hidden_region(place)
    if not place and (provider := graph.find_provider_resource(resource)):
        place = parse_region_or_zone(provider)
    if isinstance(place, UnreadableValue):
        return describe_hidden_region(place)
    return gcp_region_of_zone((place or graph.find_default_region("gcp", resource)).lower())


def find_region_or_global(resource: StateResource, graph: ResourceGraph) -> str:
    """Return the region, global for a resource that gives none."""
    return find_region(resource, graph) or "global"


def last_url_segment(name: str) -> str:
    """Return the last part of a URL, or a plain name as it is."""
    return name.rsplit("/", 1)[-1]


def normalize_name(name: str) -> str:
    """Return Compute Engine's name of a card or a disk: NVIDIA_TESLA_T4 is nvidia-tesla-t4, PD_SSD is pd-ssd."""
    return last_url_segment(name).lower().replace("_", "-")


def find_service_region(resource: StateResource, graph: ResourceGraph) -> str:
    """Return the region of a service: of a database its location, of a table that of its dataset."""
    key, source, default = "location", resource, DEFAULT_DATASET_LOCATION
    if resource.type == FIRESTORE:
        key, default = "locationId", ""
    elif resource.type == TABLE:
        source = graph.find_referenced_resource(resource, ("datasetId",), DATASET) or resource
    if source.type not in (DATASET, FIRESTORE):
        return find_region(resource, graph)
    place = read_reference(source.inputs, key)
    if isinstance(place, UnreadableValue):
        return ""
    return place.lower() if place else default or find_region(resource, graph)


pricer = PricerRegistry("gcp", find_service_region)
