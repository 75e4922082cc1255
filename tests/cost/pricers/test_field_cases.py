"""Test parts that were silent or wrong in a field test: each with its arithmetic at list prices."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.cost.pricing.region import aws_region_of_zone
from gpufleet.engine import StateResource

EAST = {"region": "us-east-1"}


def make(type_, name, inputs, **dependencies):
    urn = f"urn:pulumi:dev::app::{type_}::{name}"
    return StateResource(
        urn=urn, type=type_, name=name, inputs=inputs, outputs={},
        property_dependencies={key: (f"urn:pulumi:dev::app::{value}",) for key, value in dependencies.items()},
    )  # fmt: skip


def months(*resources):
    """Return the month, low, expected and high, rounded to cents, and the reasons of what has no price."""
    bill = cost.price_resources(list(resources))
    month = bill.usd_per_month
    cents = tuple(round(each, 2) for each in (month.low, month.expected, month.high))
    return cents, [each.reason for each in bill.unpriced_resources]


def usd(*texts):
    return tuple(Decimal(text) for text in texts)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        # 0.74 x 730; 4 to 24 workers beyond the first and 3 schedulers beyond two, each 0.11 x 730
        ({"minWorkers": 5, "maxWorkers": 25, "schedulers": 5}, usd("1102.30", "1102.30", "2708.30")),
        # by default 1 to 10 workers and 2 schedulers: 0.74 x 730, and up to 9 x 0.11 x 730 more
        ({}, usd("540.20", "540.20", "1262.90")),
    ],
)
def test_airflow_bills_workers_and_schedulers_beyond_those_included(inputs, expected):
    environment = {**EAST, "environmentClass": "mw1.medium", **inputs}
    assert months(make("aws:mwaa/environment:Environment", "af", environment)) == (expected, [])


@pytest.mark.parametrize("speed", [500, 500.0])
def test_lustre_bills_metadata_beyond_the_default(speed):
    system = {
        **EAST, "storageCapacity": 12000, "deploymentType": "PERSISTENT_2", "perUnitStorageThroughput": speed,
        "metadataConfiguration": {"mode": "USER_PROVISIONED", "iops": 24000},
    }  # fmt: skip
    # 12,000 GiB x 0.34 + (24,000 - 12,000) x 0.055; at most all 24,000 x 0.055
    assert months(make("aws:fsx/lustreFileSystem:LustreFileSystem", "s", system)) == (
        usd("4740.00", "4740.00", "5400.00"),
        [],
    )
    system.pop("metadataConfiguration")
    assert months(make("aws:fsx/lustreFileSystem:LustreFileSystem", "s", system))[0][1] == Decimal("4080.00")


ENDPOINT, CONFIGURATION = (
    "aws:sagemaker/endpoint:Endpoint",
    "aws:sagemaker/endpointConfiguration:EndpointConfiguration",
)


def make_endpoint(machine, count, **variant):
    settings = {"variantName": "v", "instanceType": machine, "initialInstanceCount": count, **variant}
    return (
        make(ENDPOINT, "auto", {**EAST, "name": "auto", "endpointConfigName": "cfg"}),
        make(CONFIGURATION, "cfg", {**EAST, "name": "cfg", "productionVariants": [settings]}),
    )


def test_endpoint_has_the_price_after_june_2025():
    # 2 x 25.251286 x 730
    assert months(*make_endpoint("ml.p4d.24xlarge", 2))[0][1] == Decimal("36866.88")


@pytest.mark.parametrize("resource_id", ["endpoint/auto/variant/v", "endpoint/auto/variant/other"])
def test_scaled_variant_has_a_range(resource_id):
    scaling = {"status": "ENABLED", "minInstanceCount": 1, "maxInstanceCount": 8}
    expected = usd("1105.95", "1105.95", "8847.60")  # 1.515 x 730, up to 8 of them
    assert months(*make_endpoint("ml.g5.2xlarge", 1, managedInstanceScaling=scaling))[0] == expected
    bounds = {**EAST, "resourceId": resource_id, "minCapacity": 1, "maxCapacity": 8}
    target = make("aws:appautoscaling/target:Target", "t", bounds)
    one = usd("1105.95", "1105.95", "1105.95")
    assert months(*make_endpoint("ml.g5.2xlarge", 1), target)[0] == (
        expected if resource_id[-1] == "v" else one
    )


@pytest.mark.parametrize(
    ("machine", "month"),
    [("ct5lp-hightpu-4t", "14016.00"), ("ct6e-standard-8t", None), ("ct5p-hightpu-4t", None)],
)
def test_tpu_nodes_bill_their_chips(machine, month):
    cluster = make(
        "gcp:container/cluster:Cluster", "k", {"location": "us-central1-a", "removeDefaultNodePool": True}
    )
    pool = {
        "cluster": "k", "location": "us-central1-a", "nodeCount": 4, "nodeConfig": {"machineType": machine},
        "networkConfig": {"enablePrivateNodes": True},
    }  # fmt: skip
    bill = cost.price_resources([cluster, make("gcp:container/nodePool:NodePool", "p", pool)])
    charges = {each.component: each for each in bill.charges}
    if month:  # 4 nodes x 4 chips x 1.20 x 730
        assert round(charges["machine"].usd_per_month.expected, 2) == Decimal(month)
    chips = 4 * int(machine.rsplit("-", 1)[1].removesuffix("t"))
    version = {"ct5lp": "v5e", "ct6e": "v6e", "ct5p": "v5p"}[machine.partition("-")[0]]
    if "machine" in charges:
        assert (charges["machine"].item, charges["machine"].quantity.expected) == (f"tpu:{version}", chips)
    else:
        assert [each.reason for each in bill.unpriced_resources if f"tpu:{version}" in each.reason]


@pytest.mark.parametrize("is_by_subnet", [False, True])
def test_machine_of_a_local_zone_has_its_price(is_by_subnet):
    zone = {"availabilityZone": "us-west-2-lax-1a"}
    subnet = make("aws:ec2/subnet:Subnet", "lax", {"vpcId": "v", "cidrBlock": "10.0.9.0/24", **zone})
    inputs = {
        "ami": "a", "instanceType": "g4dn.2xlarge", "associatePublicIpAddress": False,
        "rootBlockDevice": {"volumeSize": 100, "volumeType": "gp2"},
    }  # fmt: skip
    dependencies = {"subnetId": "aws:ec2/subnet:Subnet::lax"} if is_by_subnet else {}
    machine = make(
        "aws:ec2/instance:Instance", "edge", inputs if is_by_subnet else {**inputs, **zone}, **dependencies
    )
    (low, month, high), gaps = months(subnet, machine)
    # 0.902 x 730, and 100 GB of a disk whose price is that of a similar region: 0.10 to 0.19 USD
    expected = (Decimal("668.46"), Decimal("668.46"), Decimal("677.46"))
    assert ((low, month, high), gaps) == (expected, [])


@pytest.mark.parametrize(
    ("zone", "place"),
    [
        ("us-east-1a", "us-east-1"), ("us-gov-west-1b", "us-gov-west-1"), ("us-west-2-lax-1b", "us-west-2-lax-1"),
        ("us-east-1-wl1-nyc-wlz-1", "us-east-1-wl1-nyc1"), ("us-east-1-wl1-bos-wlz-1", "us-east-1-wl1"),
        ("eu-west-2-wl2-man-wlz-1", "eu-west-2-wl2-man1"), ("us-east-1", "us-east-1"),
    ],
)  # fmt: skip
def test_zone_has_the_place_of_the_price_list(zone, place):
    assert aws_region_of_zone(zone) == place
