"""Cosmos DB: request units per second of databases and containers in every region of their account, and use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.cost.pricing.region import normalize_azure_location

ACCOUNTS = (
    "azure-native:cosmosdb:DatabaseAccount",
    "azure-native:documentdb:DatabaseAccount",
    "azure:cosmosdb/account:Account",
)
NATIVE = (
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
CLASSIC = (
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
RUS_PER_UNIT = Decimal(100)
LEAST_SHARE = Decimal("0.1")  # of the maximum of autoscale, which bills at least a tenth
AUTOSCALE_RATE = Decimal("1.5")  # times the rate of a fixed throughput, in an account with one write region
SEVERAL_WRITERS_RATE = Decimal(2)  # times the rate, in an account that writes in several regions


@pricer(
    *(f"azure-native:cosmosdb:{name}" for name in NATIVE),
    *(f"azure-native:documentdb:{name}" for name in NATIVE),
    *(f"azure:cosmosdb/{name}" for name in CLASSIC),
)
def price_cosmos_resource(container: Reader) -> Parts:
    """Yield the throughput of a database or container in each region of its account, and what it keeps."""
    target = container.find_resource("accountName", *ACCOUNTS)
    account = replace(container, inputs=target.inputs if target else {})
    regions = [*_list_regions(account)] if account.has("locations or geoLocations") else [container.region]
    is_serverless = any(
        each.text("name", "a capability of its account", "") == "EnableServerless"
        for each in account.entries("capabilities", "the list of its account's capabilities")
    )
    if is_serverless:
        yield container.of("requests").used("cosmos_db:request_unit", "monthly_serverless_request_units")
    for region in regions:
        place = container.within(region)
        if not is_serverless:
            with place.of(f"throughput:{region}") as throughput:
                yield throughput.part("cosmos_db:rus_100", _find_units(throughput, account))
        yield place.of(f"storage:{region}").used("cosmos_db:storage", "storage_gb", stored=True)


def _list_regions(account: Reader) -> Iterator[str]:
    """Yield the regions of an account; one that cannot be read is listed, and the others bill."""
    for location in account.entries("locations or geoLocations", "the list of its account's regions"):
        with location:
            yield normalize_azure_location(
                location.text("locationName or location", "a region of its account")
            )


def _find_units(container: Reader, account: Reader) -> Range:
    """Return the units of a hundred request units per second, none if they are its database's or its containers'."""
    several = account.flag(
        "enableMultipleWriteLocations or multipleWriteLocationsEnabled",
        "whether its account writes everywhere",
    )
    rate = SEVERAL_WRITERS_RATE if several else Decimal(1)
    maximum = "options.autoscaleSettings.maxThroughput or autoscaleSettings.maxThroughput"
    if container.has(maximum):
        rate = rate if several else AUTOSCALE_RATE
        most = container.number(maximum, "its throughput") / RUS_PER_UNIT * rate
        return Range.spanning(most * LEAST_SHARE, most, most)
    fixed = container.number("options.throughput or throughput", "its throughput", 0)
    return Range.from_exact_value(fixed / RUS_PER_UNIT * rate)
