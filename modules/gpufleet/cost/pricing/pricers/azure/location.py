"""Where an Azure resource is."""

from __future__ import annotations

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import read_input_text
from gpufleet.cost.pricing.component import MachinePartContext
from gpufleet.cost.pricing.region import normalize_azure_location
from gpufleet.engine import StateResource

RESOURCE_GROUP = "azure-native:resources:ResourceGroup"


def parse_azure_location(resource: StateResource) -> str | None:
    """Parse the location of a resource, a resource group or a provider."""
    names = (read_input_text(resource.inputs, "location"), read_input_text(resource.outputs, "location"))
    return next((name for name in names if isinstance(name, str)), None)


def find_region(resource: StateResource, graph: ResourceGraph) -> str:
    """Return the location: the resource's own, else its resource group's or provider's; empty if unknown."""
    group = graph.find_referenced_resource(resource, ("resourceGroupName",), RESOURCE_GROUP)
    sources = (resource, group, graph.find_provider_resource(resource))
    locations = (parse_azure_location(source) for source in sources if source)
    return next((normalize_azure_location(location) for location in locations if location is not None), "")


def standalone_part_context(resource: StateResource, graph: ResourceGraph) -> MachinePartContext:
    """Return the context of a resource that is billed on its own."""
    return MachinePartContext("azure", find_region(resource, graph), graph.purchase_terms_of(resource).pool)
