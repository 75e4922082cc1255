"""Test that the hours of a usage file have one meaning for every service, and a note where they have none."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.catalog import Price
from gpufleet.cost.inputs.usage import ResourceUsage, UsageFile
from gpufleet.cost.inputs.usage.model import UsageFileEntry

US, EAST = {"region": "us-east-1"}, {"location": "eastus"}
SERVICES = {
    "a row, AWS": ("aws:cloudhsmv2/hsm:Hsm", US),
    "a pricer, AWS": ("aws:ec2/vpnConnection:VpnConnection", US),
    "instances, AWS": (
        "aws:dms/replicationInstance:ReplicationInstance",
        {**US, "replicationInstanceClass": "x"},
    ),
    "a row, Google Cloud": ("gcp:compute/vPNTunnel:VPNTunnel", {"region": "us-central1"}),
    "a sized row, Google Cloud": (
        "gcp:looker/instance:Instance",
        {"region": "us-central1", "platformEdition": "x"},
    ),
    "a tier, Azure": ("azure-native:search:Service", {**EAST, "sku": {"name": "basic"}}),
    "a tier, Azure classic": ("azure:search/service:Service", {**EAST, "sku": "basic"}),
    "a pricer, Azure": ("azure-native:containerregistry:Registry", {**EAST, "sku": {"name": "Basic"}}),
}
DOLLAR = cost.PriceBook(
    *(
        lambda *_: Price(1, "unit", "2026-07-06", "written by hand", "high", "x", "on_demand")
        for _ in range(2)
    )
)


def estimate(make_resource, type_, inputs, hours, *others):
    usage = ResourceUsage(hours_per_month=Decimal(hours))
    entries = [UsageFileEntry("it", usage, 1), *others]
    resources = [make_resource("it", type_, inputs), make_resource("vm")]
    return cost.price_resources(resources, DOLLAR, usage=UsageFile("usage.yaml", tuple(entries)))


@pytest.mark.parametrize(("type_", "inputs"), SERVICES.values(), ids=SERVICES)
def test_a_service_bills_the_hours_of_the_usage_file(make_resource, type_, inputs):
    bill = estimate(make_resource, type_, inputs, 73)
    own = [each for each in bill.charges if each.name == "it"]
    assert own
    assert {each.usd_per_month.expected for each in own} == {Decimal(73)}
    assert bill.usage_notes == ()


@pytest.mark.parametrize(
    ("type_", "inputs"),
    [
        ("aws:s3/bucket:Bucket", US),
        ("aws:ebs/volume:Volume", {**US, "size": 100, "availabilityZone": "us-east-1a"}),
        ("aws:iam/role:Role", {}),
    ],
)
def test_hours_without_an_effect_are_a_note(make_resource, type_, inputs):
    (note,) = estimate(make_resource, type_, inputs, 73).usage_notes
    assert note.startswith("usage.yaml: hours_per_month has no effect on the price of it")


def test_hours_around_the_clock_are_not_a_note(make_resource):
    assert estimate(make_resource, "aws:ebs/volume:Volume", {**US, "size": 100}, 730).usage_notes == ()


def test_a_key_of_one_entry_is_a_note_though_another_entry_has_it_with_an_effect(make_resource):
    other = UsageFileEntry("vm", ResourceUsage(hours_per_month=Decimal(50)), 2)
    (note,) = estimate(make_resource, "aws:ebs/volume:Volume", {**US, "size": 100}, 73, other).usage_notes
    assert note == "usage.yaml: hours_per_month has no effect on the price of it"
