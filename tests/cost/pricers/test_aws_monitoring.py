"""Test that what EC2 bills for detailed monitoring is not left out silently."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet import cost

TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"


@pytest.mark.parametrize(
    ("inputs", "is_listed"), [({"monitoring": True}, True), ({"monitoring": False}, False), ({}, False)]
)
def test_detailed_monitoring_of_an_instance_is_listed(make_resource, book, inputs, is_listed):
    instance = make_resource(
        inputs={"instanceType": "g5.2xlarge", "region": "us-east-1", "ami": "ami-1", **inputs}
    )
    gaps = {gap.component for gap in cost.price_resources([instance], book).unpriced_resources}
    assert ("monitoring" in gaps) == is_listed


def test_detailed_monitoring_of_a_template_is_listed_with_its_group(make_resource, book):
    inputs = {"instanceType": "g5.2xlarge", "imageId": "ami-1", "monitoring": {"enabled": True}}
    template = make_resource("t", TEMPLATE, inputs, id="lt-1")
    group = make_resource(
        "g",
        "aws:autoscaling/group:Group",
        {
            "desiredCapacity": 2,
            "minSize": 2,
            "maxSize": 2,
            "region": "us-east-1",
            "launchTemplate": {"id": "lt-1"},
        },
    )
    gaps = cost.price_resources([template, group], book).unpriced_resources
    assert {gap.name for gap in gaps if gap.component == "monitoring"} == {"g"}


def test_detailed_monitoring_bills_seven_metrics_of_each_instance(make_resource):
    inputs = {"instanceType": "t3.micro", "imageId": "ami-1", "monitoring": {"enabled": True}}
    template = make_resource("t", TEMPLATE, inputs, id="lt-1")
    sizes = {"desiredCapacity": 3, "minSize": 1, "maxSize": 3, "region": "eu-central-1"}
    group = make_resource("g", "aws:autoscaling/group:Group", {**sizes, "launchTemplate": {"id": "lt-1"}})
    charges = cost.price_resources([template, group]).charges
    (amount,) = (each.usd_per_month for each in charges if each.component == "monitoring")
    assert [round(each, 6) for each in (amount.low, amount.expected)] == [Decimal("2.1"), Decimal("6.3")]
