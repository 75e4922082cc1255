"""Azure databases and caches against totals calculated by hand from the list prices in service_parts_azure.csv."""

from __future__ import annotations

from decimal import Decimal

import pytest

from azure_bill import make, monthly_usd
from gpufleet.cost.inputs.usage import load_usage_file
from gpufleet.cost.pricing.pricers.azure.flexible_server import compute_item
from gpufleet.cost.pricing.pricers.azure.sql import parse_vcore_sku
from gpufleet.engine import UnreadableValue

UNKNOWN = UnreadableValue.UNKNOWN
GP_VCORE, GP_LICENCE, GP_STORAGE = 0.152217, 0.099966, 0.115  # eastus
POOL_VCORE, POOL_STORAGE = 0.1674375, 0.1369  # westeurope
DEFAULT_DISK = 32 * 1.3  # GiB, with the log

COSTS = [
    (
        "azure-native:sql:Database",
        {"location": "eastus", "sku": {"name": "GP_Gen5", "capacity": 4}},
        (GP_VCORE + GP_LICENCE) * 4 * 730 + DEFAULT_DISK * GP_STORAGE,
    ),
    (
        "azure:mssql/database:Database",
        {"location": "eastus", "skuName": "GP_Gen5_2", "maxSizeGb": 100, "licenseType": "BasePrice"},
        GP_VCORE * 2 * 730 + 130 * GP_STORAGE,
    ),
    (
        "azure-native:sql:Database",
        {
            "location": "eastus",
            "sku": {"name": "GP_Gen5_4"},
            "zoneRedundant": True,
            "maxSizeBytes": 107374182400,
        },
        (GP_VCORE + GP_LICENCE + 0.09133) * 4 * 730 + 130 * 0.23,
    ),
    (
        "azure-native:sql:Database",
        {"location": "eastus", "sku": {"name": "HS_Gen5", "capacity": 2}, "highAvailabilityReplicaCount": 1},
        0.18266 * 4 * 730,
    ),
    (
        "azure-native:sql:Database",
        {"location": "eastus", "sku": {"name": "S0", "tier": "Standard"}},
        0.02016 * 730,
    ),
    ("azure-native:sql:Database", {"location": "eastus", "sku": {"name": "S12"}}, 0.002016 * 3000 * 730),
    ("azure-native:sql:Database", {"location": "eastus", "sku": {"name": "P6"}}, 5 * 730),
    ("azure:mssql/database:Database", {"location": "eastus", "skuName": "S0", "elasticPoolId": UNKNOWN}, 0),
    (
        "azure-native:sql:ElasticPool",
        {"location": "westeurope", "sku": {"name": "StandardPool", "capacity": 200}},
        0.60416 * 730,
    ),
    (
        "azure:mssql/elasticPool:ElasticPool",
        {"location": "westeurope", "sku": {"name": "GP_Gen5", "capacity": 4}, "maxSizeGb": 50},
        (POOL_VCORE + GP_LICENCE) * 4 * 730 + 65 * POOL_STORAGE,
    ),
    (
        "azure-native:sql:ManagedInstance",
        {"location": "westeurope", "sku": {"name": "GP_Gen5"}, "vCores": 4, "storageSizeInGB": 64},
        (0.1674375 + GP_LICENCE) * 4 * 730 + 32 * 0.137,
    ),
    (
        "azure:mssql/managedInstance:ManagedInstance",
        {
            "location": "westeurope",
            "skuName": "BC_Gen5",
            "vcores": 8,
            "storageSizeInGb": 32,
            "licenseType": "BasePrice",
        },
        0.334879 * 8 * 730,
    ),
    (
        "azure-native:dbforpostgresql:Server",
        {"location": "westus", "sku": {"name": "Standard_D4s_v3"}, "storage": {"storageSizeGB": 128}},
        0.39 * 730 + 128 * 0.138,
    ),
    (
        "azure:postgresql/flexibleServer:FlexibleServer",
        {
            "location": "westus",
            "skuName": "GP_Standard_D2ds_v5",
            "storageMb": 65536,
            "highAvailability": {"mode": "ZoneRedundant"},
        },
        2 * (0.203 * 730 + 64 * 0.138),
    ),
    (
        "azure:postgresql/flexibleServer:FlexibleServer",
        {"location": "eastus", "skuName": "B_Standard_B1ms", "storageMb": 32768},
        0.017 * 730 + 32 * 0.12,
    ),
    (
        "azure-native:dbformysql:Server",
        {
            "location": "westus",
            "sku": {"name": "Standard_D2ads_v5"},
            "storage": {"storageSizeGB": 100, "iops": 700},
        },
        0.195 * 730 + 100 * 0.138 + 100 * 0.06,
    ),
    (
        "azure:mysql/flexibleServer:FlexibleServer",
        {"location": "westus", "skuName": "MO_Standard_E8ds_v4", "storage": {"sizeGb": 20}},
        0.1311 * 8 * 730 + 20 * 0.138,
    ),
    (
        "azure:postgresql/server:Server",
        {"location": "eastus", "skuName": "GP_Gen5_4", "storageMb": 640000},
        0.3504 * 730 + 625 * 0.115,
    ),
    (
        "azure-native:dbformysql:SingleServer",
        {
            "location": "eastus",
            "sku": {"name": "B_Gen5_2"},
            "properties": {"storageProfile": {"storageMB": 5120}},
        },
        0.068 * 730 + 5 * 0.1,
    ),
    (
        "azure-native:dbformariadb:Server",
        {
            "location": "eastus",
            "sku": {"name": "MO_Gen5_16"},
            "properties": {"storageProfile": {"storageMB": 102400}},
        },
        1.8896 * 730 + 100 * 0.115,
    ),
    (
        "azure-native:redis:Redis",
        {"location": "eastus", "sku": {"name": "Standard", "family": "C", "capacity": 3}},
        164.25 * 2,
    ),
    (
        "azure-native:cache:Redis",
        {"location": "eastus", "sku": {"name": "Basic", "family": "C", "capacity": 4}},
        153.3,
    ),
    (
        "azure:redis/cache:Cache",
        {
            "location": "eastus",
            "skuName": "Premium",
            "family": "P",
            "capacity": 2,
            "shardCount": 3,
            "replicasPerMaster": 2,
        },
        405.15 * 9,
    ),
    (
        "azure-native:redisenterprise:RedisEnterprise",
        {"location": "eastus", "sku": {"name": "Balanced_B3"}},
        0.065 * 2 * 730,
    ),
    (
        "azure-native:cache:RedisEnterprise",
        {"location": "eastus", "sku": {"name": "MemoryOptimized_M10"}, "highAvailability": "Enabled"},
        0.216 * 2 * 730,
    ),
    (
        "azure:managedredis/managedRedis:ManagedRedis",
        {"location": "eastus", "skuName": "Balanced_B3", "highAvailabilityEnabled": False},
        0.065 * 730,
    ),
]


@pytest.mark.parametrize(("type_", "inputs", "usd"), COSTS)
def test_database_costs_what_the_list_prices_say(type_, inputs, usd):
    total, reasons = monthly_usd(type_, inputs)
    assert total == pytest.approx(Decimal(str(round(usd, 2))), abs=Decimal("0.02"))
    assert [reason for reason in reasons if "by use" not in reason and "Hyperscale" not in reason] == []


@pytest.mark.parametrize(
    ("type_", "inputs", "reason"),
    [
        ("azure-native:sql:Database", {}, "its SKU is not set"),
        (
            "azure-native:sql:Database",
            {"sku": {"name": "GP_Gen5", "capacity": UNKNOWN}},
            "its number of vCores is not known until deployment",
        ),
        (
            "azure:postgresql/flexibleServer:FlexibleServer",
            {"skuName": UNKNOWN},
            "its size is not known until deployment",
        ),
        (
            "azure-native:dbforpostgresql:Server",
            {"sku": {"name": "Standard_D2ds_v5"}},
            "its size is not set",
        ),
        ("azure-native:redis:Redis", {"sku": {"name": "Basic", "family": "C"}}, "its size is not set"),
        ("azure:redis/enterpriseCluster:EnterpriseCluster", {}, "its size is not set"),
        (
            "azure-native:sql:Database",
            {"sku": {"name": "P15"}},
            "no on_demand price for sql_database:p15 in eastus",
        ),
    ],
)
def test_unreadable_input_is_listed_with_its_reason(type_, inputs, reason):
    assert reason in monthly_usd(type_, {"location": "eastus", **inputs})[1]


def test_region_without_a_price_has_that_of_another_and_an_unknown_one_is_listed():
    sku = {"sku": {"name": "S0"}}
    known, _ = monthly_usd("azure-native:sql:Database", {"location": "eastus", **sku})
    total, _ = monthly_usd("azure-native:sql:Database", {"location": "uaenorth", **sku})
    assert total == pytest.approx(known, rel=Decimal("0.4"))
    total, reasons = monthly_usd("azure-native:sql:Database", {"location": "moonbase", **sku})
    assert total == 0
    assert any(
        reason.startswith("no on_demand price for sql_database:dtu:standard in moonbase")
        for reason in reasons
    )


def test_serverless_database_bills_the_hours_of_the_usage_file(tmp_path):
    inputs = {"location": "eastus", "sku": {"name": "GP_S_Gen5_2"}, "minCapacity": 0.5}
    path = tmp_path / "usage.yaml"
    path.write_text("resources: {it: {monthly_vcore_hours: 100, backup_storage_gb: 10}}\n")
    total, _ = monthly_usd("azure-native:sql:Database", inputs, usage=load_usage_file(path))
    storage = Decimal(str(DEFAULT_DISK * GP_STORAGE))
    assert total == pytest.approx(Decimal("52.176") + 2 + storage, abs=Decimal("0.01"))


def test_unknown_classic_location_comes_from_the_server():
    server = make("azure:mssql/server:Server", {"location": "East US", "name": "srv"}, "srv")
    database = {"serverId": "srv", "skuName": "S1"}
    total, _ = monthly_usd("azure:mssql/database:Database", database, others=[server])
    assert total == round(Decimal("0.04032") * 730, 2)


@pytest.mark.parametrize(
    ("size", "item", "quantity"),
    [
        ("Standard_E16ads_v5", "mysql_flexible:vcore:eadsv5", 16),
        ("Standard_B2s", "mysql_flexible:b2s", 1),
        ("odd", "mysql_flexible:odd", 1),
    ],
)
def test_size_is_split_into_series_and_vcores(size, item, quantity):
    assert compute_item("mysql", size) == (item, quantity)


@pytest.mark.parametrize("sku", ["S0", "Basic", "GP", "GP_Gen5_1234", "x" * 500])
def test_sku_of_another_model_is_not_one_of_vcores(sku):
    assert parse_vcore_sku(sku) is None
