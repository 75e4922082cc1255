"""Where an Azure resource is."""

from __future__ import annotations

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import read_text
from gpufleet.cost.pricing.component import PartContext
from gpufleet.cost.pricing.region import azure_region
from gpufleet.engine import StateResource

RESOURCE_GROUP = "azure-native:resources:ResourceGroup"


def parse_location(resource: StateResource) -> str | None:
    """Parse the location of a resource, a resource group or a provider."""
    names = (read_text(resource.inputs, "location"), read_text(resource.outputs, "location"))
    return next((name for name in names if isinstance(name, str)), None)


def find_region(resource: StateResource, graph: Graph) -> str:
    """Return the location: the resource's own, else its resource group's or provider's; empty if unknown."""
    group = graph.find_target(resource, ("resourceGroupName",), RESOURCE_GROUP)
    sources = (resource, group, graph.find_provider(resource))
    locations = (parse_location(source) for source in sources if source)
    return next((azure_region(location) for location in locations if location is not None), "")


def part_context(resource: StateResource, graph: Graph) -> PartContext:
    """Return the context of a resource that is billed on its own."""
    return PartContext("azure", find_region(resource, graph), graph.terms_of(resource).pool)
