"""Where a Google Cloud resource is."""

from __future__ import annotations

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import read_text
from gpufleet.cost.pricing.component import PartContext
from gpufleet.cost.pricing.region import gcp_region
from gpufleet.engine import StateResource


def parse_locations(resource: StateResource) -> tuple[str, ...]:
    """Parse the regions and zones that a resource or a provider gives, the region of its own inputs first."""
    names = [read_text(resource.inputs, key) for key in ("region", "zone", "location")]
    names += [read_text(resource.outputs, key) for key in ("region", "zone")]
    return tuple(name for name in names if isinstance(name, str))


def find_region(resource: StateResource, graph: Graph) -> str:
    """Return the region: the resource's own, its zone's, or its provider's; empty if unknown."""
    provider = graph.find_provider(resource)
    locations = parse_locations(resource) or (parse_locations(provider) if provider else ())
    return gcp_region(locations[0]) if locations else ""


def part_context(resource: StateResource, graph: Graph) -> PartContext:
    """Return the context of a resource that is billed on its own."""
    return PartContext("gcp", find_region(resource, graph), graph.terms_of(resource).pool)


def last_segment(name: str) -> str:
    """Return the last part of a URL, or a plain name as it is."""
    return name.rsplit("/", 1)[-1]
