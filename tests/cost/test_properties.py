"""Test properties of cost differences with random resources."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet import cost
from gpufleet.cost.money import Range, round_to_cents
from gpufleet.engine import UNKNOWN, StateResource

RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
quick = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@st.composite
def instance(draw):
    name = draw(st.text("abcde", min_size=1, max_size=3))
    kind = draw(st.sampled_from(["p4d.24xlarge", "g5.2xlarge", "nosuch.large", UNKNOWN]))
    inputs = {"instanceType": kind, "region": draw(st.sampled_from(["us-east-1", "mars-1"]))}
    if draw(st.booleans()):
        inputs["instanceMarketOptions"] = {"marketType": "spot"}
    inputs["rootBlockDevice"] = {"volumeSize": draw(st.integers(1, 500)), "volumeType": "gp3"}
    inputs["tags"] = {"gpufleet-hours-per-month": str(draw(st.integers(1, 730)))}
    urn = f"urn:pulumi:s::p::gpufleet:cloud:AwsPool$aws:ec2/instance:Instance::{name}"
    return StateResource(urn, "aws:ec2/instance:Instance", name, inputs, {})


@st.composite
def reservation(draw):
    inputs = {"instanceType": "p4d.24xlarge", "instanceCount": draw(st.integers(1, 3)), "region": "us-east-1"}
    name = draw(st.text("xyz", min_size=1, max_size=2))
    return StateResource(f"urn:pulumi:s::p::{RESERVATION}::{name}", RESERVATION, name, inputs, {})


side = st.lists(st.one_of(instance(), reservation()), max_size=8, unique_by=lambda r: r.urn)


@quick
@given(before=side, after=side)
def test_cost_before_plus_change_is_cost_after(before, after, book):
    cost_diff = cost.diff(before, after, book=book)
    assert round_to_cents(
        cost_diff.before.usd_per_month.expected
    ) + cost_diff.change_usd_per_month == round_to_cents(cost_diff.after.usd_per_month.expected)


@quick
@given(before=side, after=side)
def test_resource_changes_sum_to_the_difference(before, after, book):
    cost_diff = cost.diff(before, after, book=book)
    total_change = cost_diff.after.usd_per_month.expected - cost_diff.before.usd_per_month.expected
    assert sum((line.change_usd_per_month for line in cost_diff.lines), Decimal(0)) == total_change


@quick
@given(resources=side, seed=st.integers())
def test_order_of_resources_does_not_matter(resources, seed, book):
    shuffled = list(resources)
    random.Random(seed).shuffle(shuffled)
    assert cost.price_resources(shuffled, book) == cost.price_resources(resources, book)


@quick
@given(resources=side)
def test_equal_stacks_have_no_difference(resources, book):
    cost_diff = cost.diff(resources, resources, book=book)
    assert cost_diff.change_usd_per_month == 0
    assert not [line for line in cost_diff.lines if line.is_changed or line.op != "same"]


@quick
@given(resources=side)
def test_low_bound_expected_cost_and_high_bound_are_ordered(resources, book):
    month = cost.price_resources(resources, book).usd_per_month
    assert Decimal(0) <= month.low <= month.expected <= month.high


@quick
@given(resources=side)
def test_every_resource_is_priced_or_listed_as_unpriced(resources, book):
    bill = cost.price_resources(resources, book)
    urns = {charge.urn for charge in bill.charges} | {gap.urn for gap in bill.unpriced_resources}
    assert urns == {resource.urn for resource in resources}


def test_unordered_range_is_refused():
    with pytest.raises(ValueError, match="not a range"):
        Range(Decimal(2), Decimal(1), Decimal(3))
