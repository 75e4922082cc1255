"""Where a Google Cloud resource is."""

from __future__ import annotations

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import read_reference
from gpufleet.cost.pricing.component import MachinePartContext
from gpufleet.cost.pricing.pricers.reader import make_pricer_decorator
from gpufleet.cost.pricing.region import gcp_region_of_zone
from gpufleet.engine import StateResource, UnreadableValue

DATASET, TABLE = "gcp:bigquery/dataset:Dataset", "gcp:bigquery/table:Table"
DEFAULT_DATASET_LOCATION = "us"  # the multi-region (cloud.google.com/bigquery/docs/locations)
FIRESTORE = "gcp:firestore/database:Database"


def parse_regions_and_zones(resource: StateResource) -> tuple[str, ...]:
    """Parse the regions and zones that a resource or a provider gives, the region of its own inputs first."""
    names = [read_reference(resource.inputs, key) for key in ("region", "zone", "location")]
    names += [read_reference(resource.outputs, key) for key in ("region", "zone")]
    return tuple(name for name in names if isinstance(name, str))


def find_region(resource: StateResource, graph: ResourceGraph) -> str:
    """Return the region: the resource's own, its zone's, its provider's or the default; empty if unknown.

    Buckets show their places in capitals (US-CENTRAL1), and programs copy that; prices have us-central1.
    """
    provider = graph.find_provider_resource(resource)
    locations = parse_regions_and_zones(resource) or (parse_regions_and_zones(provider) if provider else ())
    place = locations[0] if locations else graph.find_default_region("gcp", resource)
    return gcp_region_of_zone(place.lower())


def find_region_or_global(resource: StateResource, graph: ResourceGraph) -> str:
    """Return the region, global for a resource that gives none; empty if it is not known."""
    is_hidden = isinstance(read_reference(resource.inputs, "region"), UnreadableValue)
    return find_region(resource, graph) or ("" if is_hidden else "global")


def standalone_part_context(resource: StateResource, graph: ResourceGraph) -> MachinePartContext:
    """Return the context of a resource that is billed on its own."""
    return MachinePartContext("gcp", find_region(resource, graph), graph.purchase_terms_of(resource).pool)


def last_url_segment(name: str) -> str:
    """Return the last part of a URL, or a plain name as it is."""
    return name.rsplit("/", 1)[-1]


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


pricer = make_pricer_decorator("gcp", find_service_region)
