"""One case for each of Google Cloud's smaller types: its total calculated by hand, or the item that has no price."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.boundary import read_packaged_rows
from gpufleet.cost.inputs.usage.model import NO_USAGE, ResourceUsage, UsageFile, UsageFileEntry
from gpufleet.cost.pricing.billing import is_free_resource, load_usage_billed_resource_types
from gpufleet.cost.pricing.pricers.charge_table import load_charges
from gpufleet.cost.pricing.pricers.gcp import PRICERS
from gpufleet.engine import StateResource

PLACE = {"region": "us-central1", "location": "us-central1"}
EUROPE = {"region": "europe-west1", "location": "europe-west1"}

# type, inputs, amounts of the usage file, dollars a month
PRICED = [
    ("gcp:storage/bucket:Bucket", PLACE, {"storage_gb": 1000, "monthly_class_a_operations": 1_000_000,
     "monthly_class_b_operations": 1_000_000}, "25.4"),  # 20 + 5 + 0.4
    ("gcp:compute/organizationSecurityPolicy:OrganizationSecurityPolicy", {}, {"monthly_requests": 0}, 5),
    ("gcp:compute/regionSecurityPolicy:RegionSecurityPolicy", {"rules": [{"priority": 7}]},
     {"monthly_requests": 1_000_000}, "6.75"),
    ("gcp:compute/regionSecurityPolicyRule:RegionSecurityPolicyRule", {"priority": 7}, {}, 1),
    ("gcp:compute/securityPolicyRule:SecurityPolicyRule", {"priority": 7}, {}, 1),
    ("gcp:compute/securityPolicyRule:SecurityPolicyRule", {"priority": 2147483647}, {}, 0),
    ("gcp:secretmanager/regionalSecretVersion:RegionalSecretVersion", {},
     {"monthly_access_operations": 100_000}, "0.36"),
    ("gcp:compute/globalAddress:GlobalAddress", {"addressType": "INTERNAL"}, {}, 0),
    ("gcp:compute/globalAddress:GlobalAddress", {}, {}, "7.3"),
]  # fmt: skip
# type, inputs, the item without a price
LISTED = [
    ("gcp:apigee/environment:Environment", {"type": "COMPREHENSIVE"}, "apigee:environment:comprehensive"),
    ("gcp:apigee/instance:Instance", PLACE, "apigee:instance"),
    ("gcp:appengine/flexibleAppVersion:FlexibleAppVersion", PLACE, "app_engine:flexible_vcpu_hour"),
    ("gcp:appengine/standardAppVersion:StandardAppVersion", PLACE, "app_engine:instance_hour"),
    ("gcp:bigquery/capacityCommitment:CapacityCommitment", {"slotCount": 100, **PLACE},
     "bigquery:standard:committed_slot"),
    ("gcp:certificateauthority/certificate:Certificate", PLACE, "certificate_authority:certificate"),
    ("gcp:cloudbuild/trigger:Trigger", {}, "cloud_build:minute"),
    ("gcp:cloudbuild/workerPool:WorkerPool", {}, "cloud_build:private_pool_minute"),
    ("gcp:cloudids/endpoint:Endpoint", PLACE, "cloud_ids:endpoint"),
    ("gcp:compute/interconnect:Interconnect", {"linkType": "LINK_TYPE_ETHERNET_10G_LR", "requestedLinkCount": 2},
     "interconnect:link_type_ethernet_10g_lr"),
    ("gcp:compute/nodeGroup:NodeGroup", {"initialSize": 1, "zone": "us-central1-a"}, "sole_tenant_node"),
    ("gcp:compute/packetMirroring:PacketMirroring", PLACE, "packet_mirroring:gib"),
    ("gcp:compute/storagePool:StoragePool",
     {"zone": "us-central1-a", "storagePoolType": "x/hyperdisk-balanced", "poolProvisionedCapacityGb": "10240"},
     "storage_pool:hyperdisk-balanced"),
    ("gcp:dataproc/batch:Batch", PLACE, "dataproc:serverless_dcu_hour"),
    ("gcp:filestore/backup:Backup", PLACE, "filestore:backup"),
    ("gcp:gkebackup/backupPlan:BackupPlan", PLACE, "gke_backup:pod"),
    ("gcp:lustre/instance:Instance", {"capacityGib": "18000", "perUnitStorageThroughput": "1000", **PLACE},
     "lustre:1000"),
    ("gcp:managedkafka/connectCluster:ConnectCluster", {"capacityConfig": {"vcpuCount": "12"}, **PLACE},
     "managed_kafka:connect_vcpu"),
    ("gcp:netapp/backup:Backup", PLACE, "netapp:backup"),
    ("gcp:parallelstore/instance:Instance", {"capacityGib": "12000", **PLACE}, "parallelstore:scratch"),
    ("gcp:vertex/aiFeatureOnlineStore:AiFeatureOnlineStore",
     {"bigtable": {"autoScaling": {"minNodeCount": 1, "maxNodeCount": 3}}, **PLACE}, "vertex:feature_store_node"),
    ("gcp:vertex/aiFeatureStore:AiFeatureStore", {"onlineServingConfig": {"fixedNodeCount": 2}, **PLACE},
     "vertex:feature_store_node"),
    ("gcp:vertex/aiIndexEndpointDeployedIndex:AiIndexEndpointDeployedIndex",
     {"dedicatedResources": {"machineSpec": {"machineType": "n1-standard-32"}, "minReplicaCount": 1}, **PLACE},
     "vertex:prediction:n1-standard-32"),
    ("gcp:vertex/aiTensorboard:AiTensorboard", PLACE, "vertex:tensorboard_storage"),
    ("gcp:vmwareengine/privateCloud:PrivateCloud", PLACE, "vmware_engine:standard-72"),
    ("gcp:workstations/workstationCluster:WorkstationCluster", PLACE, "workstations:cluster"),
]  # fmt: skip


def price(type_, inputs, amounts=None):
    resource = StateResource(f"urn:pulumi:prod::p::{type_}::r", type_, "r", inputs, {})
    usage = ResourceUsage(amounts={key: Decimal(str(value)) for key, value in (amounts or {}).items()})
    file = UsageFile(resources=(UsageFileEntry("r", usage, 1),)) if amounts else NO_USAGE
    return cost.price_resources([resource], usage=file)


@pytest.mark.parametrize(("type_", "inputs", "amounts", "usd"), PRICED)
def test_type_has_the_manually_calculated_cost(type_, inputs, amounts, usd):
    bill = price(type_, inputs, amounts)
    assert round(bill.usd_per_month.expected, 4) == Decimal(str(usd))
    assert bill.unpriced_resources == ()


@pytest.mark.parametrize(("type_", "inputs", "item"), LISTED)
def test_item_that_has_no_price_is_named(type_, inputs, item):
    bill = price(type_, inputs)
    assert bill.charges == ()
    assert any(f"price for {item} in" in each.reason for each in bill.unpriced_resources)


def test_global_address_of_a_forwarding_rule_is_free():
    address_type = "gcp:compute/globalAddress:GlobalAddress"
    rule_type = "gcp:compute/globalForwardingRule:GlobalForwardingRule"
    address = StateResource("urn:a", address_type, "a", {"name": "a"}, {}, id="projects/p/global/addresses/a")
    rule = StateResource("urn:r", rule_type, "r", {"ipAddress": "projects/p/global/addresses/a"}, {})
    charges = cost.price_resources([address, rule]).charges
    assert [charge.type for charge in charges] == [rule_type]


def test_table_is_priced_where_its_dataset_is():
    dataset_type, table_type = "gcp:bigquery/dataset:Dataset", "gcp:bigquery/table:Table"
    dataset = StateResource("urn:d", dataset_type, "d", {"datasetId": "d", "name": "d", **EUROPE}, {}, id="d")
    table = StateResource("urn:t", table_type, "r", {"datasetId": "d"}, {})
    usage = ResourceUsage(amounts={"monthly_active_storage_gb": Decimal(100)})
    bill = cost.price_resources([dataset, table], usage=UsageFile(resources=(UsageFileEntry("r", usage, 1),)))
    assert round(bill.usd_per_month.expected, 4) == 2  # 0.02 in europe-west1


def test_dataset_without_a_location_is_in_the_united_states():
    bill = price("gcp:bigquery/dataset:Dataset", {"datasetId": "d"})
    assert any("USD per TiB" in each.reason for each in bill.unpriced_resources)
    elsewhere = price("gcp:bigquery/dataset:Dataset", {"datasetId": "d", "location": "mars"})
    assert any("bigquery:query_tib in mars" in each.reason for each in elsewhere.unpriced_resources)


@pytest.mark.parametrize(
    "type_",
    [
        "gcp:compute/haVpnGateway:HaVpnGateway",
        "gcp:servicenetworking/connection:Connection",
    ],
)
def test_traffic_that_is_not_declared_is_not_listed(type_):
    bill = price(type_, PLACE)
    assert (bill.charges, bill.unpriced_resources) == ((), ())


def test_every_usage_key_of_the_table_is_known():
    known = {row["key"] for row in read_packaged_rows("gpufleet.cost", "data/usage_keys.csv")}
    used = {charge.key for charges in load_charges("gcp:").values() for charge in charges if charge.is_by_use}
    assert used
    assert used - known == set()


def test_no_priced_type_is_also_free_or_billed_by_use():
    for type_ in PRICERS:
        assert type_ not in load_usage_billed_resource_types()
        assert not is_free_resource(StateResource("urn:x", type_, "x", {}, {})), type_


def test_at_least_100_types_are_priced():
    assert len(PRICERS) >= 100
