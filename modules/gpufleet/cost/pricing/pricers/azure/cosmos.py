"""Cosmos DB: request units per second of databases and containers in every region of their account, and use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    is_input_true,
    read_input,
    read_input_list,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import standalone_part_context
from gpufleet.cost.pricing.pricers.azure.service import units_component
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.region import normalize_azure_location
from gpufleet.engine import StateResource, UnreadableValue

ACCOUNTS = (
    "azure-native:cosmosdb:DatabaseAccount",
    "azure-native:documentdb:DatabaseAccount",
    "azure:cosmosdb/account:Account",
)
RUS_PER_UNIT = Decimal(100)
LEAST_SHARE = Decimal("0.1")  # of the maximum of autoscale, which bills at least a tenth
AUTOSCALE_RATE = Decimal("1.5")  # times the rate of a fixed throughput, in an account with one write region
SEVERAL_WRITERS_RATE = Decimal(2)  # times the rate, in an account that writes in several regions


@dataclass(frozen=True)
class CosmosAccountInputs:
    """The regions of an account and how it bills throughput."""

    regions: tuple[str, ...]
    is_serverless: bool
    writes_everywhere: bool


@dataclass(frozen=True)
class CosmosThroughputInputs:
    """The throughput of a database or container, in request units per second."""

    fixed: Number
    maximum: Number


def parse_cosmos_account_inputs(inputs: Any) -> CosmosAccountInputs:
    """Parse an account of either package."""
    locations = read_input_list(inputs, "locations") or read_input_list(inputs, "geoLocations")
    names = [read_input_text(each, "locationName") or read_input_text(each, "location") for each in locations]
    capabilities = [read_input_text(each, "name") for each in read_input_list(inputs, "capabilities")]
    return CosmosAccountInputs(
        regions=tuple(normalize_azure_location(name) for name in names if isinstance(name, str)),
        is_serverless="EnableServerless" in capabilities,
        writes_everywhere=is_input_true(inputs, "enableMultipleWriteLocations")
        or is_input_true(inputs, "multipleWriteLocationsEnabled"),
    )


def parse_cosmos_throughput_inputs(inputs: Any) -> CosmosThroughputInputs:
    """Parse a database or container: azure-native has its options in a mapping of their own."""
    options = read_input(inputs, "options")
    source = inputs if options is None else options
    return CosmosThroughputInputs(
        read_input_number(source, "throughput"),
        read_input_number(source, "autoscaleSettings", "maxThroughput"),
    )


def price_cosmos_resource(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the throughput of a database or container in each region of its account, and what it keeps."""
    target = graph.find_referenced_resource(resource, ("accountName",), *ACCOUNTS)
    account = parse_cosmos_account_inputs(target.inputs if target else {})
    throughput = parse_cosmos_throughput_inputs(resource.inputs)
    own_context = standalone_part_context(resource, graph)
    contexts = [replace(own_context, region=region) for region in account.regions] or [own_context]
    usage = graph.usage_of_resource(resource)
    stored = [
        context.make_usage_component(
            f"storage:{context.region}", "cosmos_db:storage", "storage_gb", usage, is_stored=True
        )
        for context in contexts
    ]
    if account.is_serverless:
        item, key = "cosmos_db:request_unit", "monthly_serverless_request_units"
        return [own_context.make_usage_component("requests", item, key, usage), *stored]
    components: Components = []
    for context in contexts:
        components += _throughput_components(throughput, account, context)
    return [*components, *stored]


def _throughput_components(
    throughput: CosmosThroughputInputs, account: CosmosAccountInputs, context: MachinePartContext
) -> Components:
    name = f"throughput:{context.region}"
    if isinstance(throughput.fixed, UnreadableValue) or isinstance(throughput.maximum, UnreadableValue):
        return [UnpricedComponent("its throughput is not known until deployment", name)]
    rate = SEVERAL_WRITERS_RATE if account.writes_everywhere else Decimal(1)
    if throughput.maximum is not None:
        rate = rate if account.writes_everywhere else AUTOSCALE_RATE
        most = throughput.maximum / RUS_PER_UNIT * rate
        units = Range.spanning(most * LEAST_SHARE, most, most)
    elif throughput.fixed is not None:
        units = Range.from_exact_value(throughput.fixed / RUS_PER_UNIT * rate)
    else:
        return []  # it shares the throughput of its database, or is a database whose containers have their own
    return [units_component(name, "cosmos_db:rus_100", units, context)]


_NATIVE = (
    "CassandraResourceCassandraKeyspace",
    "CassandraResourceCassandraTable",
    "GremlinResourceGremlinDatabase",
    "GremlinResourceGremlinGraph",
    "MongoDBResourceMongoDBCollection",
    "MongoDBResourceMongoDBDatabase",
    "SqlResourceSqlContainer",
    "SqlResourceSqlDatabase",
    "TableResourceTable",
)
_CLASSIC = (
    "cassandraKeyspace:CassandraKeyspace",
    "cassandraTable:CassandraTable",
    "gremlinDatabase:GremlinDatabase",
    "gremlinGraph:GremlinGraph",
    "mongoCollection:MongoCollection",
    "mongoDatabase:MongoDatabase",
    "sqlContainer:SqlContainer",
    "sqlDatabase:SqlDatabase",
    "table:Table",
)

PRICERS: dict[str, Pricer] = {
    **{f"azure-native:cosmosdb:{name}": price_cosmos_resource for name in _NATIVE},
    **{f"azure-native:documentdb:{name}": price_cosmos_resource for name in _NATIVE},
    **{f"azure:cosmosdb/{name}": price_cosmos_resource for name in _CLASSIC},
}
