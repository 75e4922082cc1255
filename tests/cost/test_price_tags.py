"""Test that tags set a price in gpufleet's own pools only: anyone can write them on a plain resource."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.cost import CostPolicy
from gpufleet.engine import StateResource

POOL = "urn:pulumi:prod::p::gpufleet:cloud:GpuPool$gpufleet:cloud:AwsPool::train"
CHEAP = {"gpufleet-hours-per-month": "0", "gpufleet-purchase": "spot", "gpufleet-fallback": "standby"}
BUDGET = CostPolicy(budget_usd_per_month=Decimal(100), purchases=("spot", "reserved"))
INSTANCE, GROUP, TEMPLATE = (
    "aws:ec2/instance:Instance",
    "aws:autoscaling/group:Group",
    "aws:ec2/launchTemplate:LaunchTemplate",
)


def make(type_, inputs, name="a", **fields):
    types = f"{POOL.split('::')[2]}$" if fields.get("parent") == POOL else ""
    return StateResource(f"urn:pulumi:prod::p::{types}{type_}::{name}", type_, name, inputs, {}, **fields)


def instance(tags=None, **fields):
    inputs = {"instanceType": "p4d.24xlarge", "region": "us-east-1", "subnetId": "s", "tags": tags or {}}
    return make(INSTANCE, inputs, **fields)


def machine(book, *resources):
    bill = cost.price_resources(resources, book)
    return next(each for each in bill.charges if each.component.startswith("machine"))


def group(tags, template_tags=None, **fields):
    template = make(TEMPLATE, {"instanceType": "p4d.24xlarge", "tags": template_tags or {}}, "t", **fields)
    inputs = {
        "minSize": 1, "maxSize": 1, "region": "us-east-1", "vpcZoneIdentifiers": ["s"],
        "launchTemplate": {"id": "t-id"}, "tags": [{"key": key, "value": value} for key, value in tags.items()],
    }  # fmt: skip
    dependencies = {"launchTemplate": (template.urn,)}
    return template, make(GROUP, inputs, property_dependencies=dependencies, **fields)


def test_tags_of_a_plain_resource_set_no_price(book):
    charge = machine(book, instance(CHEAP))
    assert (charge.purchase, charge.hours_per_month, charge.usd_per_month.low) == (
        "on_demand", 730, charge.usd_per_month.high,
    )  # fmt: skip
    assert charge.usd_per_month == machine(book, instance()).usd_per_month


def test_tags_of_a_plain_group_and_of_its_template_set_no_price(book):
    plain = machine(book, *group({}))
    assert machine(book, *group(CHEAP)).usd_per_month == plain.usd_per_month
    assert machine(book, *group({}, CHEAP)).usd_per_month == plain.usd_per_month


def test_tags_in_a_pool_set_the_price(book):
    charge = machine(book, instance({"gpufleet-hours-per-month": "60"}, parent=POOL))
    assert charge.hours_per_month == 60
    assert machine(book, *group({"gpufleet-hours-per-month": "60"}, parent=POOL)).hours_per_month == 60


def test_plain_group_does_not_stand_by_for_another(book):
    template, spot = group({"gpufleet-fallback": "on_demand", "gpufleet-pool": "x"})
    standby = make(GROUP, spot.inputs | {"tags": [{"key": "gpufleet-fallback", "value": "standby"}]}, "b",
                   property_dependencies=spot.property_dependencies)  # fmt: skip
    bill = cost.price_resources([template, spot, standby], book)
    assert {each.quantity.expected for each in bill.charges if each.component == "machine"} == {1}


@pytest.mark.parametrize(
    "package_inputs", [{"defaultTags": json.dumps({"tags": CHEAP})}, {"defaultTags": {"tags": CHEAP}}]
)
@pytest.mark.parametrize("parent", [None, POOL])
def test_default_tags_set_no_price(book, package_inputs, parent):
    provider = make("pulumi:providers:aws", package_inputs, "own")
    tagged = instance(parent=parent, provider=f"{provider.urn}::id")
    assert machine(book, provider, tagged).usd_per_month == machine(book, instance()).usd_per_month


def test_labels_of_google_set_no_price(book):
    inputs = {"machineType": "g2-standard-4", "zone": "us-central1-a", "labels": CHEAP}
    charge = machine(book, make("gcp:compute/instance:Instance", inputs))
    assert (charge.purchase, charge.hours_per_month) == ("on_demand", 730)


def test_pull_request_cannot_lower_the_cost_with_tags(book):
    before = make(INSTANCE, {**instance().inputs, "instanceType": "g5.xlarge"})
    diff = cost.diff([before], [instance(CHEAP)], BUDGET, book=book)
    assert {each.rule for each in diff.policy.violations} == {"budget_usd_per_month", "purchases"}
    unchanged = cost.diff([instance()], [instance(CHEAP)], book=book)
    assert unchanged.change_usd_per_month == 0
    assert unchanged.policy.passed


def test_note_names_the_tags_that_set_no_price(book):
    warnings = cost.diff([], [instance(CHEAP)], book=book).warnings
    assert "the tag gpufleet-hours-per-month sets no price outside a pool of gpufleet: a" in warnings
    assert cost.price_resources([instance(CHEAP, parent=POOL)], book).usage_notes == ()


def test_machine_that_leaves_a_pool_by_an_alias_is_no_plain_one_before(book):
    """The old resource gets the new URN, and keeps the parent that it had."""
    pooled = instance({"gpufleet-hours-per-month": "60"}, parent=POOL)
    before = StateResource(**{**vars(pooled), "urn": instance().urn})
    diff = cost.diff([before], [instance({"gpufleet-hours-per-month": "60"})], book=book)
    assert diff.change_usd_per_month > 10_000
