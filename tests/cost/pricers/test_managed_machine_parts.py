"""Parts of machines that Google's services run: external addresses and local disks; and insights of RDS."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.engine import StateResource, UnreadableValue

HIDDEN = UnreadableValue.UNKNOWN
WORKBENCH, DATAPROC = "gcp:workbench/instance:Instance", "gcp:dataproc/cluster:Cluster"
WORKSTATIONS = "gcp:workstations/workstationConfig:WorkstationConfig"
PUBLIC = Decimal("3.65")  # 0.005 USD x 730 h


def price(*resources):
    """Return the month's charges by component, and the reasons of what has no price."""
    bill = cost.price_resources(
        [
            StateResource(f"urn:pulumi:prod::p::{type_}::r{index}", type_, f"r{index}", inputs, {})
            for index, (type_, inputs) in enumerate(resources)
        ]
    )
    charges = {each.component: each.usd_per_month.expected for each in bill.charges}
    return charges, {each.component: each.reason for each in bill.unpriced_resources}


@pytest.mark.parametrize(
    ("setup", "usd"),
    [({}, PUBLIC), ({"disablePublicIp": False}, PUBLIC), ({"disablePublicIp": True}, None)],
)
def test_workbench_has_an_external_address_unless_it_is_disabled(setup, usd):
    inputs = {"location": "us-central1-a", "gceSetup": {"machineType": "n2-standard-4", **setup}}
    assert price((WORKBENCH, inputs))[0].get("public_ipv4") == usd


def test_stopped_workbench_has_no_external_address():
    charges, _ = price((WORKBENCH, {"location": "us-central1-a", "desiredState": "STOPPED"}))
    assert set(charges) == {"disk:machine"}


def make_dataproc(address_settings=None, **worker):
    config = {"masterConfig": {"machineType": "n2-standard-4"}}
    config["workerConfig"] = {"machineType": "n2-standard-4", "numInstances": 2, **worker}
    if address_settings is not None:
        config["gceClusterConfig"] = address_settings
    return (DATAPROC, {"region": "us-central1", "clusterConfig": config})


def test_dataproc_bills_external_addresses_if_it_has_them():
    names = ("master:public_ipv4", "worker:public_ipv4")
    for settings, usd in (
        (None, None),
        ({"internalIpOnly": True}, None),
        ({"internalIpOnly": False}, PUBLIC),
    ):
        charges, _ = price(make_dataproc(settings))
        assert [charges.get(name) for name in names] == [usd, usd and 2 * usd]
    reason = "whether it has external addresses is not known until deployment"
    assert price(make_dataproc({"internalIpOnly": HIDDEN}))[1]["master:public_ipv4"] == reason


def test_dataproc_bills_the_local_disks_of_its_workers():
    charges, _ = price(make_dataproc(diskConfig={"numLocalSsds": 2}))
    disks = [round(charges[f"worker:disk:local{index}"], 6) for index in range(2)]
    assert disks == [2 * 375 * Decimal("0.08")] * 2  # two workers, 375 GiB, 0.08 USD a month
    assert not any("local" in name for name in price(make_dataproc())[0])


def test_ready_workstations_have_external_addresses_unless_disabled():
    for setting, usd in ((None, 2 * PUBLIC), (True, None)):
        host = {"gceInstance": {"poolSize": 2, "disablePublicIpAddresses": setting}}
        charges, _ = price((WORKSTATIONS, {"location": "us-central1", "host": host}))
        assert charges.get("public_ipv4") == usd


def test_external_addresses_of_a_tpu_are_listed():
    for setting, is_listed in ((True, True), (False, False), (None, False)):
        inputs = {"zone": "us-central1-a", "acceleratorType": "v5litepod-8"}
        inputs["networkConfig"] = {"enableExternalIps": setting}
        charges, reasons = price(("gcp:tpu/v2Vm:V2Vm", inputs))
        assert (set(charges), "public_ipv4" in reasons) == ({"machine"}, is_listed)


DATABASE = {"region": "us-east-1", "instanceClass": "db.r6g.large"}
RDS, AURORA = "aws:rds/instance:Instance", "aws:rds/clusterInstance:ClusterInstance"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"performanceInsightsEnabled": True}, None),
        ({"performanceInsightsRetentionPeriod": 7}, None),
        (
            {"performanceInsightsRetentionPeriod": 731},
            "Performance Insights kept for more than 7 days bills each vCPU, and is not in the price list",
        ),
        (
            {"databaseInsightsMode": "advanced", "performanceInsightsRetentionPeriod": 465},
            "Database Insights in advanced mode bills each vCPU, and is not in the price list",
        ),
    ],
)
def test_insights_that_bill_are_listed(settings, reason):
    instance = {**DATABASE, "engine": "postgres", "allocatedStorage": 100, "storageType": "gp3"}
    assert price((RDS, {**instance, **settings}))[1].get("insights") == reason
    aurora = {**DATABASE, "engine": "aurora-postgresql", "clusterIdentifier": "c"}
    cluster = ("aws:rds/cluster:Cluster", {"region": "us-east-1", "clusterIdentifier": "c", **settings})
    assert price((AURORA, {**aurora, **settings}))[1].get("insights") == reason
    assert price((AURORA, aurora), cluster)[1].get("insights") == reason
