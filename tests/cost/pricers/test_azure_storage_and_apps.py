"""Azure storage, apps, containers and services of machines against totals calculated by hand from list prices."""

from __future__ import annotations

from decimal import Decimal

import pytest

from azure_bill import make, monthly_usd
from gpufleet.catalog import Price
from gpufleet.cost import PriceBook, price_resources
from gpufleet.cost.inputs.usage import load_usage_file
from gpufleet.engine import UnreadableValue

UNKNOWN = UnreadableValue.UNKNOWN
WEST, EAST, EUROPE = {"location": "westus"}, {"location": "eastus"}, {"location": "westeurope"}

COSTS = [
    (
        "azure-native:web:AppServicePlan",
        {**EAST, "sku": {"name": "P1v3", "capacity": 2}, "reserved": True},
        113.15 * 2,
    ),
    ("azure-native:web:AppServicePlan", {**EAST, "sku": {"name": "S1"}, "kind": "app"}, 73),
    ("azure:appservice/servicePlan:ServicePlan", {**EAST, "skuName": "B1", "osType": "Linux"}, 12.41),
    (
        "azure:appservice/servicePlan:ServicePlan",
        {**EAST, "skuName": "P1v2", "osType": "Windows", "workerCount": 3},
        438,
    ),
    (
        "azure:appservice/plan:Plan",
        {**EAST, "kind": "Linux", "sku": {"tier": "Standard", "size": "S1"}},
        69.35,
    ),
    ("azure:appservice/plan:Plan", {**EAST, "sku": {"tier": "Dynamic", "size": "Y1"}}, 0),
    ("azure-native:web:AppServicePlan", {**EAST, "sku": {"name": "EP2"}}, 126.29 * 2 + 8.979 * 7),
    ("azure-native:web:AppServicePlan", {**EUROPE, "sku": {"name": "WS1"}}, 143.96 + 10.294 * 3.5),
    ("azure-native:containerregistry:Registry", {**EUROPE, "sku": {"name": "Basic"}}, 0.1667 / 24 * 730),
    (
        "azure:containerservice/registry:Registry",
        {**EUROPE, "sku": "Premium", "georeplications": [{"location": "eastus"}]},
        2 * 1.6667 / 24 * 730,
    ),
    ("azure-native:containerregistry:Replication", EAST, 1.6667 / 24 * 730),
    (
        "azure-native:containerinstance:ContainerGroup",
        {**EAST, "containers": [{"resources": {"requests": {"cpu": 1, "memoryInGB": 1.5}}}] * 2},
        (2 * 0.0405 + 3 * 0.00445) * 730,
    ),
    (
        "azure:containerservice/group:Group",
        {"location": "swedencentral", "containers": [{"cpu": 0.5, "memory": 1}]},
        (0.5 * 0.0466 + 0.00511) * 730,
    ),
    (
        "azure-native:app:ContainerApp",
        {
            "location": "westus2",
            "template": {
                "containers": [{"resources": {"cpu": 1, "memory": "2Gi"}}],
                "scale": {"minReplicas": 1, "maxReplicas": 3},
            },
        },
        (0.000034 + 2 * 0.000004) * 3600 * 730,
    ),
    (
        "azure:containerapp/app:App",
        {
            "location": "westus2",
            "template": {"containers": [{"cpu": 0.5, "memory": "1Gi"}], "minReplicas": 2},
        },
        2 * (0.5 * 0.000034 + 0.000004) * 3600 * 730,
    ),
    (
        "azure-native:hdinsight:Cluster",
        {
            **EAST,
            "properties": {
                "computeProfile": {
                    "roles": [
                        {
                            "name": "headnode",
                            "hardwareProfile": {"vmSize": "Standard_D3_v2"},
                            "targetInstanceCount": 2,
                        },
                        {
                            "name": "workernode",
                            "hardwareProfile": {"vmSize": "Standard_D4_v2"},
                            "targetInstanceCount": 4,
                        },
                    ]
                }
            },
        },
        (2 * 0.295 + 4 * 0.59) * 730,
    ),
    (
        "azure:hdinsight/hadoopCluster:HadoopCluster",
        {
            **EAST,
            "roles": {
                "headNode": {"vmSize": "Standard_D3_v2"},
                "workerNode": {"vmSize": "Standard_D4_v2", "targetInstanceCount": 3},
                "zookeeperNode": {"vmSize": "Standard_D3_v2"},
            },
        },
        (5 * 0.295 + 3 * 0.59) * 730,
    ),
    (
        "azure:hdinsight/kafkaCluster:KafkaCluster",
        {**EUROPE, "roles": {"headNode": {"vmSize": "Standard_E2s_v3"}}},
        0.38 * 730,
    ),
    (
        "azure:hdinsight/sparkCluster:SparkCluster",
        {**EUROPE, "roles": {"headNode": {"vmSize": "Standard_G2"}}},
        2 * 1.476 * 730,
    ),
    (
        "azure:hdinsight/hBaseCluster:HBaseCluster",
        {**EAST, "roles": {"headNode": {"vmSize": "Standard_D1"}}},
        0.147 * 730,
    ),
    (
        "azure:hdinsight/interactiveQueryCluster:InteractiveQueryCluster",
        {**EUROPE, "roles": {"workerNode": {"vmSize": "Standard_E16_v3", "targetInstanceCount": 2}}},
        2 * 1.52 * 730,
    ),
    ("azure-native:synapse:SqlPool", {**EUROPE, "sku": {"name": "DW500c"}}, 1.51 * 5 * 730),
    ("azure:synapse/sqlPool:SqlPool", {**EUROPE, "skuName": "DW200c"}, 3.02 * 730),
]


@pytest.mark.parametrize(("type_", "inputs", "usd"), COSTS)
def test_service_costs_what_the_list_prices_say(type_, inputs, usd):
    total, reasons = monthly_usd(type_, inputs)
    assert total == pytest.approx(Decimal(str(round(usd, 2))), abs=Decimal("0.02"))
    assert [reason for reason in reasons if "by use" not in reason] == []


ACCOUNT = {**WEST, "sku": {"name": "Standard_LRS"}, "kind": "StorageV2"}
PLAN = make("azure-native:web:AppServicePlan", {**EAST, "name": "plan", "sku": {"name": "Y1"}}, "plan")
BY_USE = [
    (
        "azure-native:storage:StorageAccount",
        ACCOUNT,
        {"storage_gb": 1000, "monthly_write_operations": 10000},
        20.8 + 0.055,
    ),
    (
        "azure:storage/account:Account",
        {**WEST, "accountTier": "Standard", "accountReplicationType": "GRS", "accessTier": "Cool"},
        {"storage_gb": 100},
        2.3,
    ),
    (
        "azure-native:web:WebApp",
        {**EAST, "kind": "functionapp", "serverFarmId": "plan"},
        {"monthly_executions": 5000000, "monthly_execution_gib_seconds": 1000000},
        1 + 16,
    ),
    ("azure:appservice/functionApp:FunctionApp", EAST, {"monthly_executions": 1000000}, 0.2),
    ("azure:appservice/linuxFunctionApp:LinuxFunctionApp", EAST, {"monthly_executions": 1000000}, 0.2),
    ("azure:appservice/windowsFunctionApp:WindowsFunctionApp", EAST, {"monthly_executions": 1000000}, 0.2),
    ("azure-native:compute:Snapshot", EUROPE, {"storage_gb": 100}, 5),
    ("azure:compute/snapshot:Snapshot", EUROPE, {"storage_gb": 100}, 5),
    ("azure-native:compute:Image", EUROPE, {"storage_gb": 30}, 1.5),
    ("azure:compute/image:Image", EUROPE, {"storage_gb": 30}, 1.5),
    ("azure-native:recoveryservices:Vault", EUROPE, {"storage_gb": 100}, 4.48),
    ("azure:recoveryservices/vault:Vault", EUROPE, {"storage_gb": 100}, 4.48),
    (
        "azure-native:app:ContainerApp",
        {"location": "westus2"},
        {"monthly_vcpu_seconds": 1000000, "monthly_requests": 1000000},
        34.4,
    ),
    ("azure-native:synapse:BigDataPool", EUROPE, {"monthly_spark_vcore_hours": 100}, 15.46),
    ("azure:synapse/sparkPool:SparkPool", EUROPE, {"monthly_spark_vcore_hours": 100}, 15.46),
]


@pytest.mark.parametrize(("type_", "inputs", "amounts", "usd"), BY_USE)
def test_amounts_of_the_usage_file_are_billed(tmp_path, type_, inputs, amounts, usd):
    path = tmp_path / "usage.yaml"
    path.write_text(f"resources:\n  it: {amounts!s}\n".replace("'", ""))
    total, _ = monthly_usd(type_, inputs, usage=load_usage_file(path), others=[PLAN])
    assert total == pytest.approx(Decimal(str(round(usd, 2))), abs=Decimal("0.01"))


def test_apps_in_a_paid_plan_bill_with_the_plan():
    plan = make("azure-native:web:AppServicePlan", {**EAST, "name": "plan", "sku": {"name": "S1"}}, "plan")
    function = {**EAST, "kind": "functionapp", "serverFarmId": "plan"}
    assert monthly_usd("azure-native:web:WebApp", function, others=[plan]) == (0, [])
    assert monthly_usd("azure-native:web:WebApp", EAST) == (0, [])


def test_share_bills_its_quota_only_in_the_premium_tier():
    premium = make(
        "azure-native:storage:StorageAccount",
        {**WEST, "accountName": "acc", "sku": {"name": "Premium_LRS"}, "kind": "FileStorage"},
        "acc",
    )
    share = {"accountName": "acc", "shareQuota": 100}
    total, reasons = monthly_usd("azure-native:storage:FileShare", share, others=[premium])
    assert (total, reasons) == (Decimal("17.60"), [])
    standard = make(
        "azure:storage/account:Account",
        {**WEST, "name": "acc", "accountTier": "Standard", "accountReplicationType": "LRS"},
        "acc",
    )
    share = {"storageAccountName": "acc", "quota": 100, "accessTier": "Hot"}
    _, reasons = monthly_usd("azure:storage/share:Share", share, others=[standard])
    assert "bills by use, 0.0287 USD per GiB-month; give storage_gb in the usage file" in reasons


ITEMS = [
    (
        "azure-native:netapp:CapacityPool",
        {"serviceLevel": "Premium", "size": 4398046511104},
        "netapp:premium",
        4096,
    ),
    ("azure-native:netapp:Pool", {"serviceLevel": "Ultra", "size": 4398046511104}, "netapp:ultra", 4096),
    ("azure:netapp/pool:Pool", {"serviceLevel": "Standard", "sizeInTb": 4}, "netapp:standard", 4096),
    (
        "azure-native:storagecache:AmlFilesystem",
        {"sku": {"name": "AMLFS-Durable-Premium-250"}, "storageCapacityTiB": 16},
        "managed_lustre:amlfs-durable-premium-250",
        16,
    ),
    (
        "azure:managedlustre/fileSystem:FileSystem",
        {"skuName": "AMLFS-Durable-Premium-40", "storageCapacityInTb": 48},
        "managed_lustre:amlfs-durable-premium-40",
        48,
    ),
    (
        "azure-native:storagecache:Cache",
        {"sku": {"name": "Standard_2G"}, "cacheSizeGB": 3072},
        "hpc_cache:standard_2g",
        3072,
    ),
    (
        "azure:hpc/cache:Cache",
        {"skuName": "Standard_2G", "cacheSizeInGb": 3072},
        "hpc_cache:standard_2g",
        3072,
    ),
    (
        "azure-native:elasticsan:ElasticSan",
        {"sku": {"name": "Premium_LRS"}, "baseSizeTiB": 2},
        "elastic_san:premium_lrs",
        2,
    ),
    (
        "azure-native:app:ManagedEnvironment",
        {"workloadProfiles": [{"workloadProfileType": "D4", "minimumCount": 2, "maximumCount": 4}]},
        "container_apps:dedicated_vcpu",
        8,
    ),
    (
        "azure:containerapp/environment:Environment",
        {"workloadProfiles": [{"workloadProfileType": "E8", "minimumCount": 1}]},
        "container_apps:dedicated_gib",
        64,
    ),
    (
        "azure-native:cognitiveservices:Deployment",
        {"sku": {"name": "ProvisionedManaged", "capacity": 50}, "properties": {"model": {"name": "gpt-4o"}}},
        "openai:ptu:provisionedmanaged",
        50,
    ),
    (
        "azure-native:kusto:Cluster",
        {"sku": {"name": "Standard_E8ads_v5", "tier": "Standard", "capacity": 2}},
        "kusto:vcore_markup",
        16,
    ),
    (
        "azure:kusto/cluster:Cluster",
        {"sku": {"name": "Standard_E2ads_v5"}, "optimizedAutoScale": {"maximumInstances": 5}},
        "kusto:vcore_markup",
        4,
    ),
    (
        "azure-native:machinelearningservices:Compute",
        {
            "properties": {
                "computeType": "AmlCompute",
                "properties": {
                    "vmSize": "Standard_NC24ads_A100_v4",
                    "scaleSettings": {"minNodeCount": 1, "maxNodeCount": 4},
                },
            }
        },
        "Standard_NC24ads_A100_v4",
        1,
    ),
    (
        "azure:machinelearning/computeCluster:ComputeCluster",
        {
            "vmSize": "Standard_NC6s_v3",
            "vmPriority": "Dedicated",
            "scaleSettings": {"minNodeCount": 2, "maxNodeCount": 8},
        },
        "Standard_NC6s_v3",
        2,
    ),
    (
        "azure:machinelearning/computeInstance:ComputeInstance",
        {"virtualMachineSize": "Standard_DS3_v2"},
        "Standard_DS3_v2",
        1,
    ),
    (
        "azure-native:machinelearningservices:OnlineDeployment",
        {"properties": {"instanceType": "Standard_NC24ads_A100_v4"}, "sku": {"capacity": 3}},
        "Standard_NC24ads_A100_v4",
        3,
    ),
    (
        "azure-native:batch:Pool",
        {"vmSize": "Standard_D4s_v3", "scaleSettings": {"fixedScale": {"targetDedicatedNodes": 5}}},
        "Standard_D4s_v3",
        5,
    ),
    (
        "azure:batch/pool:Pool",
        {"vmSize": "Standard_D4s_v3", "fixedScale": {"targetLowPriorityNodes": 7}},
        "Standard_D4s_v3",
        7,
    ),
]


@pytest.mark.parametrize(("type_", "inputs", "item", "quantity"), ITEMS)
def test_service_asks_for_so_many_units_of_its_item(type_, inputs, item, quantity):
    book = PriceBook(*[lambda *_: Price(1, "unit", None, "test", "low", "eastus", "on_demand")] * 2)
    charges = price_resources([make(type_, {**EAST, **inputs})], book).charges
    assert [charge.quantity.expected for charge in charges if charge.item == item] == [quantity]


def test_compute_cluster_ranges_between_its_bounds_and_may_be_spot():
    settings = {
        "vmSize": "Standard_NC6s_v3",
        "vmPriority": "LowPriority",
        "scaleSettings": {"maxNodeCount": 8},
    }
    inputs = {**EAST, "properties": {"computeType": "AmlCompute", "properties": settings}}
    book = PriceBook(*[lambda *_: Price(1, "unit", None, "test", "low", "eastus", "spot")] * 2)
    (machine,) = price_resources([make("azure-native:machinelearningservices:Compute", inputs)], book).charges
    assert machine.purchase == "spot"
    assert (machine.quantity.low, machine.quantity.expected, machine.quantity.high) == (0, 0, 8)


@pytest.mark.parametrize(
    ("type_", "inputs", "reason"),
    [
        ("azure-native:web:AppServicePlan", {}, "its size is not set"),
        (
            "azure:appservice/servicePlan:ServicePlan",
            {"skuName": UNKNOWN},
            "its size is not known until deployment",
        ),
        ("azure-native:storage:StorageAccount", {}, "its SKU is not set"),
        ("azure-native:storage:FileShare", {}, "the redundancy of its storage account is not known"),
        ("azure-native:containerregistry:Registry", {}, "its tier is not set"),
        (
            "azure-native:containerinstance:ContainerGroup",
            {"containers": [{"resources": {"requests": {"cpu": UNKNOWN, "memoryInGB": 1}}}]},
            "the size of a container is not known until deployment",
        ),
        (
            "azure-native:batch:Pool",
            {"vmSize": "x", "scaleSettings": {"autoScale": {}}},
            "its size follows a formula",
        ),
        ("azure-native:kusto:Cluster", {"sku": {"name": "odd"}}, "unknown size odd"),
        ("azure-native:synapse:SqlPool", {"sku": {"name": "odd"}}, "unknown performance level odd"),
        ("azure:cognitive/deployment:Deployment", {}, "its model is not set"),
    ],
)
def test_unreadable_input_is_listed_with_its_reason(type_, inputs, reason):
    assert reason in monthly_usd(type_, {**EAST, **inputs})[1]


def test_region_without_a_price_is_listed():
    plan = {"location": "moonbase", "sku": {"name": "S1"}}
    (reason,) = monthly_usd("azure-native:web:AppServicePlan", plan)[1]
    assert reason.startswith("no on_demand price for app_service:windows:s1 in moonbase")


def test_attached_compute_costs_nothing_here():
    inputs = {**EAST, "properties": {"computeType": "AKS", "resourceId": "x"}}
    assert monthly_usd("azure-native:machinelearningservices:Compute", inputs) == (0, [])


def test_premium_share_has_the_dated_price_of_its_region():
    account = make(
        "azure:storage/account:Account",
        {"location": "eastus2", "name": "acc", "accountTier": "Premium", "accountReplicationType": "ZRS"}
        | {"accountKind": "FileStorage"},
        "acc",
    )
    share = {"storageAccountName": "acc", "quota": 500}
    assert monthly_usd("azure:storage/share:Share", share, others=[account]) == (100, [])
