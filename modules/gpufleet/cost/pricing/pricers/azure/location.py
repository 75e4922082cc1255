"""Where an Azure resource is."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import read_reference
from gpufleet.cost.pricing.component import MachinePartContext
from gpufleet.cost.pricing.pricers.reader import make_pricer_decorator
from gpufleet.cost.pricing.region import normalize_azure_location
from gpufleet.engine import StateResource

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


def parse_azure_location(resource: StateResource) -> str | None:
    """Parse the location of a resource, a resource group or a provider."""
    names = (read_reference(resource.inputs, "location"), read_reference(resource.outputs, "location"))
    return next((name for name in names if isinstance(name, str)), None)


def find_region(resource: StateResource, graph: ResourceGraph) -> str:
    """Return the location: the resource's own, its parent's, group's, provider's or the default; empty if unknown."""
    locations = (parse_azure_location(source) for source in _location_sources(resource, graph))
    location = next((each for each in locations if each is not None), None)
    return normalize_azure_location(
        graph.find_default_region("azure", resource) if location is None else location
    )


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


def standalone_part_context(resource: StateResource, graph: ResourceGraph) -> MachinePartContext:
    """Return the context of a resource that is billed on its own."""
    return MachinePartContext("azure", find_region(resource, graph), graph.purchase_terms_of(resource).pool)


pricer = make_pricer_decorator("azure", find_region)
