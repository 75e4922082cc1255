"""Test that what bills by use only is a class apart from what has no price: in policies, reports and JSON."""

from __future__ import annotations

import json
from datetime import date

import pytest

from gpufleet import cost
from gpufleet.cost import CostPolicy
from gpufleet.engine import StateResource

TODAY = date(2026, 11, 29)
DISK = {"volumeSize": 30, "volumeType": "gp3"}
INSTANCE = {
    "ami": "ami-1",
    "instanceType": "m5.large",
    "availabilityZone": "us-east-1a",
    "rootBlockDevice": DISK,
}


def make(type_, name, **inputs):
    urn = f"urn:pulumi:dev::app::{type_}::{name}"
    return StateResource(urn=urn, type=type_, name=name, inputs={"region": "us-east-1", **inputs}, outputs={})


INPUTS = (
    make("aws:ec2/instance:Instance", "web", **INSTANCE),
    make("aws:s3/bucket:Bucket", "data"),
    make("aws:lambda/function:Function", "handler", memorySize=128, tracingConfig={"mode": "Active"}),
    make("aws:cloudwatch/logGroup:LogGroup", "logs"),
)
BROKEN = make("acme:gpu/cloud:Cloud", "other")


def diff(before=(), after=INPUTS, **limits):
    return cost.diff(list(before), list(after), CostPolicy(**limits), today=TODAY)


def list_failures(result):
    return {each.rule for each in (*result.policy.violations, *result.policy.undecided)}


def test_forbidden_missing_prices_concern_no_use():
    result = diff(INPUTS, INPUTS, unpriced=())
    assert result.policy.passed
    assert {each.name for each in result.gaps.by_use} == {"data", "handler", "logs"}
    assert list_failures(diff(INPUTS, (*INPUTS, BROKEN), unpriced=())) == {"unpriced", "unknown_change"}


@pytest.mark.parametrize(
    ("allowed", "failures"),
    [((), {"unknown_usage"}), (("aws:s3/*",), {"unknown_usage"}), (("aws:*",), set()), (("*",), set())],
)
def test_policy_may_require_amounts_of_use(allowed, failures):
    assert list_failures(diff(INPUTS, INPUTS, unknown_usage=allowed)) == failures


def test_policy_may_allow_changes_that_bill_by_use_only():
    assert list_failures(diff(INPUTS[:1])) == {"unknown_change"}
    assert list_failures(diff(INPUTS[:1], unknown_change=("usage",))) == set()
    changed = (*INPUTS, BROKEN)
    assert list_failures(diff(INPUTS[:1], changed, unknown_change=("usage",))) == {"unknown_change"}


def test_reports_list_the_two_classes_apart():
    result = diff(INPUTS[:1], (*INPUTS, BROKEN))
    document = json.loads(cost.render_diff(result, "json"))
    assert {each["name"] for each in document["unpriced"]} == {"other"}
    assert {each["name"] for each in document["usage"]} == {"data", "handler", "logs"}
    table = cost.render_diff(result, "table")
    assert "no price for 1 changed resource; 3 changed resources bill by use" in table
    assert "not counting 1 item without a price and 5 that bill by use" in table
    for form in ("table", "markdown", "html"):
        text = cost.render_diff(result, form)
        assert text.index("Without price") < text.index("By use, of an unknown amount")
    assert cost.render_diff(result, "junit").count("gpufleet.cost.usage") == 5
