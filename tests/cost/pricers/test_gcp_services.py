"""Google Cloud's services by the embedded prices of us-central1, each total calculated by hand.

Prices: Google's lists of 2024 and 2026 as ``tools/price_lists/service_parts_gcp.csv`` names them, written again here.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.cost.inputs.usage.model import NO_USAGE, ResourceUsage, UsageFile, UsageFileEntry
from gpufleet.engine import StateResource, UnreadableValue

REGION = "us-central1"
ALLOYDB = "gcp:alloydb/instance:Instance"
FILESTORE = "gcp:filestore/instance:Instance"
HOURS = Decimal(730)


def make_resource(type_, inputs, name="r", **fields):
    return StateResource(f"urn:pulumi:prod::p::{type_}::{name}", type_, name, inputs, {}, **fields)


def make_usage(**amounts):
    usage = ResourceUsage(amounts={key: Decimal(str(value)) for key, value in amounts.items()})
    return UsageFile(resources=(UsageFileEntry("r", usage, 1),))


def price(type_, inputs, **amounts):
    resources = [make_resource(type_, inputs)]
    return cost.price_resources(resources, usage=make_usage(**amounts) if amounts else NO_USAGE)


def month(bill):
    return round(bill.usd_per_month.expected, 4)


def reasons(bill):
    return " | ".join(each.reason for each in bill.unpriced_resources)


SQL = "gcp:sql/databaseInstance:DatabaseInstance"
POSTGRES = {"databaseVersion": "POSTGRES_16", "region": REGION}
VCPU, GIB, SSD = "0.0413", "0.007", "0.17"  # Cloud SQL's vCPU hour, GiB hour, GiB month


def hourly(*pairs):
    """Sum amounts times prices of an hour, over a month."""
    return round(sum(Decimal(a) * Decimal(b) for a, b in pairs) * HOURS, 4)


def monthly(*pairs):
    return round(sum((Decimal(a) * Decimal(b) for a, b in pairs), Decimal(0)), 4)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"tier": "db-f1-micro"}, hourly((1, "0.0105")) + monthly((10, SSD))),
        ({"tier": "db-g1-small", "diskSize": 20}, hourly((1, "0.035")) + monthly((20, SSD))),
        (
            {"tier": "db-custom-2-7680", "diskSize": 100},
            hourly((2, VCPU), ("7.5", GIB)) + monthly((100, SSD)),
        ),
        (
            {"tier": "db-custom-2-7680", "diskSize": 100, "availabilityType": "REGIONAL"},
            hourly((4, VCPU), (15, GIB)) + monthly((200, SSD)),
        ),
        ({"tier": "db-n1-standard-4"}, hourly((4, VCPU), (15, GIB)) + monthly((10, SSD))),
        (
            {"tier": "db-perf-optimized-N-2", "edition": "ENTERPRISE_PLUS"},
            hourly((2, "0.0537"), (16, "0.0091")) + monthly((10, SSD)),
        ),
        ({"tier": "db-custom-1-3840", "activationPolicy": "NEVER"}, monthly((10, SSD))),
    ],
)
def test_sql_instance_costs_its_tier_twice_with_a_standby(settings, expected):
    assert month(price(SQL, {**POSTGRES, "settings": settings})) == expected


@pytest.mark.parametrize(
    ("region", "vcpu", "gib", "ssd"),
    [
        ("europe-west1", "0.0413", "0.007", "0.17"),
        ("europe-west3", "0.0496", "0.0084", "0.204"),
        ("us-east4", "0.0442", "0.0075", "0.1819"),
        ("asia-northeast1", "0.0537", "0.0091", "0.221"),
    ],
)
def test_sql_instance_costs_the_prices_of_its_region(region, vcpu, gib, ssd):
    settings = {"tier": "db-custom-2-7680", "diskSize": 100}
    expected = hourly((2, vcpu), ("7.5", gib)) + monthly((100, ssd))
    assert month(price(SQL, {**POSTGRES, "region": region, "settings": settings})) == expected


def test_sql_backups_bill_by_use():
    settings = {"tier": "db-f1-micro", "backupConfiguration": {"enabled": True}}
    without = price(SQL, {**POSTGRES, "settings": settings})
    assert "0.08 USD per GiB-month; give backup_storage_gb" in reasons(without)
    bill = price(SQL, {**POSTGRES, "settings": settings}, backup_storage_gb=50)
    assert month(bill) - month(without) == 4
    assert reasons(bill) == ""


def test_sql_server_lists_its_licence_for_at_least_four_vcpus():
    inputs = {"databaseVersion": "SQLSERVER_2019_STANDARD", "region": REGION}
    bill = price(SQL, {**inputs, "settings": {"tier": "db-custom-2-7680"}})
    assert "cloud_sql:sqlserver_standard:vcpu" in reasons(bill)
    express = {**inputs, "databaseVersion": "SQLSERVER_2019_EXPRESS"}
    assert reasons(price(SQL, {**express, "settings": {"tier": "db-custom-2-7680"}})) == ""


def test_sql_standby_that_is_hidden_is_a_range():
    settings = {"tier": "db-f1-micro", "availabilityType": UnreadableValue.UNKNOWN}
    bill = price(SQL, {**POSTGRES, "settings": settings})
    assert bill.usd_per_month.low * 2 == bill.usd_per_month.high


@pytest.mark.parametrize("tier", ["db-unknown-7", UnreadableValue.UNKNOWN, None, "db-custom-x-1"])
def test_sql_tier_without_a_price_is_listed_and_its_disk_is_priced(tier):
    bill = price(SQL, {**POSTGRES, "settings": {"tier": tier}})
    assert [each.component for each in bill.unpriced_resources] == ["machine"]
    assert month(bill) == monthly((10, SSD))


REDIS = "gcp:redis/instance:Instance"


@pytest.mark.parametrize(
    ("tier", "gib", "usd_per_gib"),
    [
        ("BASIC", 1, "35.77"), ("BASIC", 4, "35.77"), ("BASIC", 5, "19.71"), (None, 10, "19.71"),
        ("BASIC", 11, "16.79"), ("STANDARD_HA", 5, "39.42"), ("STANDARD_HA", 101, "21.9"),
    ],
)  # fmt: skip
def test_redis_instance_costs_its_memory_by_capacity_tier(tier, gib, usd_per_gib):
    bill = price(REDIS, {"tier": tier, "memorySizeGb": gib, "region": REGION})
    assert month(bill) == monthly((gib, usd_per_gib))


def test_redis_read_replicas_are_listed():
    inputs = {"memorySizeGb": 5, "region": REGION, "readReplicasMode": "READ_REPLICAS_ENABLED"}
    assert "read replicas" in reasons(price(REDIS, inputs))


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"shardCount": 3}, hourly((3, "0.1923"))),
        ({"shardCount": 3, "replicaCount": 2, "nodeType": "REDIS_HIGHMEM_XLARGE"}, hourly((9, "0.8581"))),
        ({"shardCount": 2, "replicaCount": 1, "nodeType": "REDIS_SHARED_CORE_NANO"}, hourly((4, "0.0318"))),
    ],
)
def test_redis_cluster_costs_each_shard_and_replica(inputs, expected):
    assert month(price("gcp:redis/cluster:Cluster", {**inputs, "region": REGION})) == expected


@pytest.mark.parametrize(
    ("inputs", "chips", "usd"),
    [
        ({"acceleratorType": "v5litepod-8"}, 8, "1.2"),
        ({"acceleratorType": "v5litepod-256"}, 256, "1.2"),
        ({"acceleratorConfig": {"type": "V5LITE_POD", "topology": "4x4"}}, 16, "1.2"),
    ],
)
def test_tpu_slice_costs_its_chips(inputs, chips, usd):
    bill = price("gcp:tpu/v2Vm:V2Vm", {**inputs, "zone": "us-central1-a"})
    assert month(bill) == hourly((chips, usd))


def test_type_of_v5p_counts_cores():
    (charge,) = price("gcp:tpu/v2Vm:V2Vm", {"acceleratorType": "v5p-16", "zone": "us-east5-a"}).charges
    assert (charge.item, charge.quantity.expected) == ("tpu:v5p", 8)


def test_queued_slices_are_each_priced():
    node = {"node": {"acceleratorType": "v5litepod-4"}}
    bill = price(
        "gcp:tpu/v2QueuedResource:V2QueuedResource",
        {"zone": "us-central1-a", "tpu": {"nodeSpecs": [node, node]}},
    )
    assert month(bill) == hourly((8, "1.2"))


@pytest.mark.parametrize("type_", ["v9-8", "x" * 300, UnreadableValue.SECRET])
def test_unknown_tpu_is_listed(type_):
    bill = price("gcp:tpu/v2Vm:V2Vm", {"acceleratorType": type_, "zone": "us-central1-a"})
    assert not bill.charges
    assert reasons(bill)


BUCKET = "gcp:storage/bucket:Bucket"


@pytest.mark.parametrize(
    ("location", "storage_class", "usd_per_gib"),
    [
        ("US", None, "0.026"), ("us-central1", "STANDARD", "0.02"), ("EU", "NEARLINE", "0.015"),
        ("ASIA", "COLDLINE", "0.00875"), ("NAM4", "STANDARD", "0.044"), ("US", "MULTI_REGIONAL", "0.026"),
    ],
)  # fmt: skip
def test_bucket_costs_what_it_keeps(location, storage_class, usd_per_gib):
    bill = price(BUCKET, {"location": location, "storageClass": storage_class}, storage_gb=1000)
    assert month(bill) == monthly((1000, usd_per_gib))


def test_bucket_requests_bill_by_use():
    bill = price(
        BUCKET,
        {"location": "EU"},
        storage_gb=0,
        monthly_class_a_operations=1_000_000,
        monthly_class_b_operations=10_000_000,
    )
    assert month(bill) == 9  # 5 USD per million writes, 0.40 per million reads
    assert reasons(bill) == ""


@pytest.mark.parametrize(
    ("type_", "inputs", "amounts", "expected"),
    [
        ("gcp:dns/managedZone:ManagedZone", {"dnsName": "a."}, {}, Decimal("0.2")),
        ("gcp:secretmanager/secretVersion:SecretVersion", {}, {}, Decimal("0.06")),
    ],
)
def test_simple_service_costs_its_parts(type_, inputs, amounts, expected):
    assert month(price(type_, inputs, **amounts)) == expected


@pytest.mark.parametrize(
    ("type_", "inputs", "item"),
    [
        ("gcp:spanner/instance:Instance", {"config": "regional-us-central1", "numNodes": 3}, "spanner:standard:node"),
        (
            "gcp:spanner/instance:Instance",
            {"config": "projects/p/instanceConfigs/nam3", "processingUnits": 500, "edition": "ENTERPRISE"},
            "spanner:enterprise:node",
        ),
        ("gcp:bigtable/instance:Instance", {"clusters": [{"zone": "us-central1-b", "numNodes": 3}]}, "bigtable:node"),
        (
            ALLOYDB,
            {"machineConfig": {"cpuCount": 4}, "cluster": "x"},
            "alloydb:vcpu",
        ),
        (
            "gcp:memcache/instance:Instance",
            {"nodeCount": 2, "nodeConfig": {"cpuCount": 1, "memorySizeMb": 2048}},
            "memcache:vcpu",
        ),
        (FILESTORE, {"tier": "BASIC_HDD", "fileShares": {"capacityGb": 1024}}, "filestore:basic_hdd"),
        ("gcp:netapp/storagePool:StoragePool", {"serviceLevel": "PREMIUM", "capacityGib": "2048"}, "netapp:premium"),
        ("gcp:memorystore/instance:Instance", {"shardCount": 3, "nodeType": "HIGHMEM_MEDIUM"}, "valkey:highmem_medium"),
    ],
)  # fmt: skip
def test_item_is_named_where_its_region_has_no_price(type_, inputs, item):
    inputs = {"region": "nowhere-west9", "location": "nowhere-west9", **inputs}
    clusters = inputs.get("clusters", [])
    for cluster in clusters:
        cluster["zone"] = "nowhere-west9-a"
    if "config" in inputs:
        inputs["config"] = inputs["config"].replace("us-central1", "nowhere-west9").replace("nam3", "nowhere")
    bill = price(type_, inputs)
    assert not bill.charges
    assert f"no on_demand price for {item} in nowhere" in reasons(bill)


HIDDEN = UnreadableValue.UNKNOWN


@pytest.mark.parametrize(
    ("type_", "inputs"),
    [
        ("gcp:spanner/instance:Instance", {"config": "regional-us-central1", "numNodes": HIDDEN}),
        ("gcp:spanner/instance:Instance", {"config": HIDDEN, "numNodes": 1}),
        ("gcp:bigtable/instance:Instance", {"clusters": HIDDEN}),
        ("gcp:bigtable/instance:Instance", {"clusters": [{"zone": "us-central1-b", "numNodes": HIDDEN}]}),
        (ALLOYDB, {"machineConfig": HIDDEN}),
        (ALLOYDB, {"machineConfig": {"cpuCount": 2}, "instanceType": "READ_POOL", "readPoolConfig": HIDDEN}),
        ("gcp:memcache/instance:Instance", {"nodeCount": HIDDEN}),
        ("gcp:redis/instance:Instance", {"memorySizeGb": HIDDEN}),
        ("gcp:redis/instance:Instance", {"memorySizeGb": 1, "tier": HIDDEN}),
        ("gcp:redis/cluster:Cluster", {"shardCount": HIDDEN}),
        ("gcp:redis/cluster:Cluster", {"shardCount": 1, "nodeType": HIDDEN}),
        (FILESTORE, {"tier": HIDDEN, "fileShares": {"capacityGb": 1024}}),
        (FILESTORE, {"tier": "BASIC_HDD", "fileShares": {"capacityGb": HIDDEN}}),
        (FILESTORE, {"tier": "NEW", "fileShares": {"capacityGb": 1024}}),
        ("gcp:kms/cryptoKey:CryptoKey", {"versionTemplate": {"protectionLevel": HIDDEN}}),
        ("gcp:storage/bucket:Bucket", {"location": HIDDEN}),
        ("gcp:tpu/v2QueuedResource:V2QueuedResource", {"tpu": HIDDEN}),
    ],
)  # fmt: skip
def test_input_that_is_not_known_is_listed(type_, inputs):
    bill = price(type_, {"region": REGION, **inputs})
    assert not bill.charges
    assert reasons(bill)


def test_autoscaling_is_a_range():
    limits = {"minNodes": 1, "maxNodes": 3}
    find = cost.PriceBook().find_cloud_part_price
    book = cost.PriceBook(find, lambda *key: find("gcp", REGION, "vpn:tunnel", "on_demand"))
    inputs = {
        "config": "regional-us-central1",
        "autoscalingConfig": {"autoscalingLimits": limits},
    }
    bill = cost.price_resources([make_resource("gcp:spanner/instance:Instance", inputs)], book)
    (charge,) = bill.charges
    assert (charge.quantity.low, charge.quantity.expected, charge.quantity.high) == (1, 1, 3)


def test_regional_alloydb_primary_runs_twice_in_the_region_of_its_cluster():
    find = cost.PriceBook().find_cloud_part_price
    book = cost.PriceBook(find, lambda *key: find("gcp", REGION, "vpn:tunnel", "on_demand"))
    cluster = make_resource("gcp:alloydb/cluster:Cluster", {"name": "c", "location": "europe-west4"}, "c")
    instance = make_resource(
        ALLOYDB,
        {"cluster": "c", "instanceType": "PRIMARY", "machineConfig": {"cpuCount": 4}},
    )
    charges = cost.price_resources([cluster, instance], book).charges
    assert [(charge.component, charge.region, charge.quantity.expected) for charge in charges] == [
        ("memory", "europe-west4", 64),
        ("vcpus", "europe-west4", 8),
    ]


def test_secret_bills_in_each_of_its_places():
    replicas = [{"location": "us-east1"}, {"location": "us-west1"}]
    secret = make_resource(
        "gcp:secretmanager/secret:Secret",
        {"secretId": "s", "name": "s", "replication": {"userManaged": {"replicas": replicas}}},
        "s",
    )
    version = make_resource("gcp:secretmanager/secretVersion:SecretVersion", {"secret": "s"})
    assert month(cost.price_resources([secret, version])) == Decimal("0.12")
