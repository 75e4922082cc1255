"""Test the remedies for misspelt machines and regions among the resources without a price."""

from __future__ import annotations

import pytest

from gpufleet import cost
from gpufleet.catalog.prices.similar_name import find_similar_names
from gpufleet.cost.pricing import name_suggestion

REGION = "no price is known in this region, did you mean us-east-1?"
MACHINE = "unknown machine, did you mean p4d.24xlarge?"


def reasons(make_resource, machine, region, **options):
    inputs = {
        "instanceType": machine,
        "region": region,
        "rootBlockDevice": {"volumeSize": 100, "volumeType": "gp3"},
    }
    unpriced = cost.price_resources([make_resource(inputs=inputs, **options)]).unpriced_resources
    return {each.component: each.reason for each in unpriced}


@pytest.mark.parametrize(
    ("machine", "region", "suggestion"),
    [
        ("p4d.24xlarg", "us-east-1", MACHINE),
        ("p4d.24xlarge", "us-esat-1", REGION),
        ("P4D.24xlarge", "us-east1", f"{MACHINE}; {REGION}"),
    ],
)
def test_misspelt_name_is_listed_with_the_known_one(make_resource, machine, region, suggestion):
    reason = reasons(make_resource, machine, region)["machine"]
    assert reason == f"no on_demand price for {machine} in {region}; {suggestion}"


def test_part_in_a_misspelt_region_has_the_remedy_too(make_resource):
    assert reasons(make_resource, "p4d.24xlarge", "us-esat-1")["disk:root"].endswith(REGION)


@pytest.mark.parametrize(
    ("machine", "region"), [("p5.48xlarge", "ap-south-2"), ("quantum.huge", "us-east-1")]
)
def test_real_region_without_a_price_and_strange_machine_have_no_suggestion(make_resource, machine, region):
    assert (
        reasons(make_resource, machine, region)["machine"] == f"no on_demand price for {machine} in {region}"
    )


def test_number_of_searched_names_is_bounded(make_resource, monkeypatch):
    monkeypatch.setattr(name_suggestion, "MAX_NAMES", 2)
    inputs = {"subnetId": "s", "region": "us-east-1"}
    resources = [
        make_resource(f"a{number}", inputs={**inputs, "instanceType": f"p4d.{number}24xlarge"})
        for number in range(5)
    ]
    bill = cost.price_resources(resources)
    machines = [each for each in bill.unpriced_resources if each.component == "machine"]
    assert (len(machines), sum("did you mean" in each.reason for each in machines)) == (5, 2)


def test_swapped_letters_are_the_likelier_mistake():
    assert find_similar_names("us-esat-1", ["us-west-1", "us-east-1", "us-east-2"]) == ("us-east-1",)
    assert find_similar_names("estus", ["westus", "eastus", "westus2"]) == ("eastus", "westus")
    assert find_similar_names("us-east-1", ["us-west-1", "us-east-1"]) == ()
    assert find_similar_names("x" * 10**6, ["us-east-1"]) == ()
