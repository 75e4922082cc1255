"""Where an Azure resource is."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Text, read_reference, text_if_known
from gpufleet.cost.pricing.pricers.reader import PricerRegistry
from gpufleet.cost.pricing.region import (
    describe_hidden_region,
    find_place_sources,
    normalize_azure_location,
)
from gpufleet.engine import StateResource, UnreadableValue

RESOURCE_GROUPS = ("azure-native:resources:ResourceGroup", "azure:core/resourceGroup:ResourceGroup")
# Inputs that name the resource that a resource without a location is a part of.
PARENTS: dict[str, tuple[str, ...]] = {
    "accountName": (
        "azure-native:batch:BatchAccount",
        "azure-native:cognitiveservices:Account",
        "azure-native:cosmosdb:DatabaseAccount",
        "azure-native:documentdb:DatabaseAccount",
        "azure-native:storage:StorageAccount",
        "azure:batch/account:Account",
        "azure:cosmosdb/account:Account",
        "azure:netapp/account:Account",
    ),
    "cognitiveAccountId": ("azure:cognitive/account:Account",),
    "containerAppEnvironmentId": ("azure:containerapp/environment:Environment",),
    "dedicatedHostGroupId": ("azure:compute/dedicatedHostGroup:DedicatedHostGroup",),
    "dnsResolverName": ("azure-native:dnsresolver:DnsResolver",),
    "machineLearningWorkspaceId": ("azure:machinelearning/workspace:Workspace",),
    "privateDnsResolverId": ("azure:privatedns/resolver:Resolver",),
    "serverId": ("azure:mssql/server:Server",),
    "serverName": ("azure-native:sql:Server", "azure:mssql/server:Server", "azure:sql/sqlServer:SqlServer"),
    "storageAccountId": ("azure:storage/account:Account",),
    "storageAccountName": ("azure:storage/account:Account",),
    "synapseWorkspaceId": ("azure:synapse/workspace:Workspace",),
    "workspaceName": ("azure-native:machinelearningservices:Workspace", "azure-native:synapse:Workspace"),
}


def parse_azure_location(resource: StateResource) -> Text:
    """Parse the location of a resource, a resource group or a provider, which may be unreadable."""
    location = read_reference(resource.inputs, "location")
    return text_if_known(read_reference(resource.outputs, "location")) if location is None else location


def find_region(resource: StateResource, graph: ResourceGraph) -> str:
    """Return the location: the resource's own, its parent's, group's, provider's or the default.

    Empty if nothing names one; a description, in which no price is, if it is not known until deployment or secret.
    """
    places = ((source, parse_azure_location(source)) for source in _location_sources(resource, graph))
    source, location = next(((source, place) for source, place in places if place), (resource, None))
    if isinstance(location, UnreadableValue):
        groups = find_place_sources(source, parse_azure_location, graph)
        regions = {find_region(each, graph) for each in groups}
        return regions.pop() if len(regions) == 1 else describe_hidden_region(location)
    return normalize_azure_location(location or graph.find_default_region("azure", resource))


def _location_sources(resource: StateResource, graph: ResourceGraph) -> Iterator[StateResource]:
    """Yield the resources whose location may be that of a resource, the nearest first."""
    yield resource
    parents = [
        parent
        for name, types in PARENTS.items()
        if name in resource.inputs and (parent := graph.find_referenced_resource(resource, (name,), *types))
    ]
    yield from parents
    for each in (resource, *parents):
        if group := graph.find_referenced_resource(each, ("resourceGroupName",), *RESOURCE_GROUPS):
            yield group
    if provider := graph.find_provider_resource(resource):
        yield provider


pricer = PricerRegistry("azure", find_region)
