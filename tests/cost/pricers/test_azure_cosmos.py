"""Cosmos DB against totals calculated by hand: 5.84 USD a month for each 100 request units a second and region."""

from __future__ import annotations

from decimal import Decimal

import pytest

from azure_bill import make, monthly_usd
from gpufleet.cost import price_resources
from gpufleet.cost.inputs.usage import load_usage_file
from gpufleet.engine import UnreadableValue

NATIVE = [
    "azure-native:cosmosdb:CassandraResourceCassandraKeyspace",
    "azure-native:cosmosdb:CassandraResourceCassandraTable",
    "azure-native:cosmosdb:GremlinResourceGremlinDatabase",
    "azure-native:cosmosdb:GremlinResourceGremlinGraph",
    "azure-native:cosmosdb:MongoDBResourceMongoDBCollection",
    "azure-native:cosmosdb:MongoDBResourceMongoDBDatabase",
    "azure-native:cosmosdb:SqlResourceSqlContainer",
    "azure-native:cosmosdb:SqlResourceSqlDatabase",
    "azure-native:cosmosdb:TableResourceTable",
    "azure-native:documentdb:CassandraResourceCassandraKeyspace",
    "azure-native:documentdb:CassandraResourceCassandraTable",
    "azure-native:documentdb:GremlinResourceGremlinDatabase",
    "azure-native:documentdb:GremlinResourceGremlinGraph",
    "azure-native:documentdb:MongoDBResourceMongoDBCollection",
    "azure-native:documentdb:MongoDBResourceMongoDBDatabase",
    "azure-native:documentdb:SqlResourceSqlContainer",
    "azure-native:documentdb:SqlResourceSqlDatabase",
    "azure-native:documentdb:TableResourceTable",
]
CLASSIC = [
    "azure:cosmosdb/cassandraKeyspace:CassandraKeyspace",
    "azure:cosmosdb/cassandraTable:CassandraTable",
    "azure:cosmosdb/gremlinDatabase:GremlinDatabase",
    "azure:cosmosdb/gremlinGraph:GremlinGraph",
    "azure:cosmosdb/mongoCollection:MongoCollection",
    "azure:cosmosdb/mongoDatabase:MongoDatabase",
    "azure:cosmosdb/sqlContainer:SqlContainer",
    "azure:cosmosdb/sqlDatabase:SqlDatabase",
    "azure:cosmosdb/table:Table",
]


def native_account(*regions, **inputs):
    locations = [{"locationName": region, "failoverPriority": i} for i, region in enumerate(regions)]
    return make(
        "azure-native:cosmosdb:DatabaseAccount",
        {"accountName": "acc", "location": "westus", "locations": locations, **inputs},
        "acc",
    )


def classic_account(*regions, **inputs):
    locations = [{"location": region, "failoverPriority": i} for i, region in enumerate(regions)]
    return make("azure:cosmosdb/account:Account", {"name": "acc", "geoLocations": locations, **inputs}, "acc")


@pytest.mark.parametrize("type_", NATIVE)
def test_native_throughput_bills_in_each_region(type_):
    inputs = {"accountName": "acc", "options": {"throughput": 500}}
    total, reasons = monthly_usd(type_, inputs, others=[native_account("West US", "Central US")])
    assert total == Decimal("5.84") * 5 * 2
    assert [reason for reason in reasons if "by use" not in reason] == []


@pytest.mark.parametrize("type_", CLASSIC)
def test_classic_throughput_bills_in_each_region(type_):
    inputs = {"accountName": "acc", "throughput": 400}
    total, _ = monthly_usd(type_, inputs, others=[classic_account("westus")])
    assert total == Decimal("5.84") * 4


def test_autoscale_bills_from_a_tenth_to_its_maximum_at_a_higher_rate():
    inputs = {"accountName": "acc", "options": {"autoscaleSettings": {"maxThroughput": 4000}}}
    container = make("azure-native:cosmosdb:SqlResourceSqlContainer", inputs)
    (charge,) = price_resources([container, native_account("westus")]).charges
    assert (charge.quantity.low, charge.quantity.expected, charge.quantity.high) == (6, 60, 60)


def test_several_write_regions_double_the_rate():
    inputs = {"accountName": "acc", "throughput": 100}
    account = classic_account("westus", "centralus", multipleWriteLocationsEnabled=True)
    total, _ = monthly_usd("azure:cosmosdb/sqlDatabase:SqlDatabase", inputs, others=[account])
    assert total == Decimal("5.84") * 2 * 2


def test_serverless_account_bills_by_use(tmp_path):
    path = tmp_path / "usage.yaml"
    path.write_text("resources: {it: {monthly_serverless_request_units: 10000000}}\n")
    account = native_account("eastus", capabilities=[{"name": "EnableServerless"}], location="eastus")
    container = {"accountName": "acc", "location": "eastus"}
    type_ = "azure-native:cosmosdb:SqlResourceSqlContainer"
    total, _ = monthly_usd(type_, container, others=[account], usage=load_usage_file(path))
    assert total == Decimal("2.79")


def test_container_without_throughput_shares_that_of_its_database():
    type_ = "azure-native:cosmosdb:SqlResourceSqlContainer"
    total, reasons = monthly_usd(type_, {"accountName": "acc"}, others=[native_account("westus")])
    assert total == 0
    assert reasons == ["bills by use, 0.25 USD per GiB-month; give storage_gb in the usage file"]


def test_unknown_throughput_and_region_are_listed():
    type_ = "azure-native:cosmosdb:SqlResourceSqlContainer"
    unknown = {"accountName": "acc", "options": {"throughput": UnreadableValue.UNKNOWN}}
    account = native_account("westus")
    assert "its throughput is not known until deployment" in monthly_usd(type_, unknown, others=[account])[1]
    elsewhere = {"accountName": "acc", "options": {"throughput": 400}}
    total, _ = monthly_usd(type_, elsewhere, others=[native_account("uaenorth")])
    assert total > 0  # priced as another region
