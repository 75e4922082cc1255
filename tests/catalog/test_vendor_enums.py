"""Test the words of the facts table against the enumerations that the vendors' own SDKs ship."""

from __future__ import annotations

import botocore.session
import pytest

from gpufleet import catalog
from gpufleet.catalog import data_file, fact_value
from gpufleet.catalog.machine_facts import load_fact_rows
from gpufleet.nodes.cloud_api import account

MARKET_TYPES = {  # purchase: AWS's market type; None: an ordinary instance, with or without a reservation
    "on_demand": None,
    "reserved": None,
    "committed": None,
    "spot": "spot",
    "capacity_block": "capacity-block",
}
PROVISIONING_MODELS = {
    "on_demand": "STANDARD",
    "reserved": "RESERVATION_BOUND",
    "committed": "STANDARD",
    "spot": "SPOT",
    "flex_start": "FLEX_START",
}
PRIORITIES = {"on_demand": "Regular", "reserved": "Regular", "committed": "Regular", "spot": "Spot"}
PURCHASES = {"aws": set(MARKET_TYPES), "gcp": set(PROVISIONING_MODELS), "azure": set(PRIORITIES)}
GCP_DISK_KINDS = ("pd-", "hyperdisk-")  # the API takes the name of a disk type, not an enumeration


def list_words(cloud, attribute):
    """Return every word that the table uses for an attribute of a cloud's machines."""
    facts = [catalog.get_machine_facts(name, of) for of, name in data_file.load_machines() if of == cloud]
    return {word for machine in facts if machine for word in getattr(machine, attribute)}


def get_aws_enumeration(shape):
    return set(botocore.session.get_session().get_service_model("ec2").shape_for(shape).enum)


@pytest.mark.parametrize("cloud", catalog.CLOUDS)
def test_each_cloud_sells_by_purchases_that_it_has(cloud):
    assert list_words(cloud, "purchases") <= PURCHASES[cloud]
    assert set().union(*PURCHASES.values()) == set(fact_value.PURCHASE_KINDS)


def test_purchases_of_aws_are_market_and_reservation_types():
    assert {kind for kind in MARKET_TYPES.values() if kind} <= get_aws_enumeration("MarketType")
    assert {"spot", "on-demand", "capacity-block"} == get_aws_enumeration("UsageClassType")
    assert {"default", "capacity-block"} == get_aws_enumeration("CapacityReservationType")


def test_disks_of_aws_are_volume_types():
    assert list_words("aws", "boot_disk_kinds") <= get_aws_enumeration("VolumeType")


def test_machines_of_aws_are_instance_types():
    rows = {row["machine"] for row in load_fact_rows() if row["cloud"] == "aws" and "*" not in row["machine"]}
    assert rows <= get_aws_enumeration("InstanceType")


def test_interfaces_of_aws_are_interface_types():
    assert {"interface", "efa", "efa-only"} <= get_aws_enumeration("NetworkInterfaceType")


def test_words_of_azure_are_its_enumerations():
    compute = pytest.importorskip("azure.mgmt.compute.models")
    assert list_words("azure", "boot_disk_kinds") <= {kind.value for kind in compute.StorageAccountTypes}
    assert set(PRIORITIES.values()) <= {kind.value for kind in compute.VirtualMachinePriorityTypes}
    assert {"Delete", "Deallocate"} == {kind.value for kind in compute.VirtualMachineEvictionPolicyTypes}
    assert {"Uniform", "Flexible"} == {kind.value for kind in compute.OrchestrationMode}


def test_words_of_google_are_its_enumerations():
    compute = account.import_sdk("google.cloud.compute_v1")
    assert set(PROVISIONING_MODELS.values()) <= {kind.name for kind in compute.Scheduling.ProvisioningModel}
    assert all(kind.startswith(GCP_DISK_KINDS) for kind in list_words("gcp", "boot_disk_kinds"))
    interfaces = {kind.name for kind in compute.AttachedDisk.Interface}
    facts = [catalog.get_machine_facts(name, of) for of, name in data_file.load_machines() if of == "gcp"]
    assert {machine.local_disk_kind.upper() for machine in facts if machine.local_disk_kind} <= interfaces


def test_quota_buckets_of_google_are_its_metrics():
    """The enumeration ends with the H100: newer families are a dimension of one quota (GPUS_PER_GPU_FAMILY)."""
    compute = account.import_sdk("google.cloud.compute_v1")
    metrics = {metric.name for metric in compute.Quota.Metric}
    newer = ("H100_MEGA", "H200", "B200")
    for row in load_fact_rows():
        if (row["cloud"], row["field"]) != ("gcp", "quota_buckets"):
            continue
        for bucket in fact_value.parse_fact("quota_buckets", row["value"])["quota_buckets"].values():
            is_dimension = bucket.startswith("GPUS_PER_GPU_FAMILY:NVIDIA_")
            assert bucket in metrics or is_dimension or any(name in bucket for name in newer), bucket
