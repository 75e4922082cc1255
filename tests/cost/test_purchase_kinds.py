"""Test that every purchase of the spec is priced as what it is: the tags say it, the price list has it or not."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.catalog import Price
from gpufleet.cost import PriceBook
from gpufleet.cost.inputs.stack_change import change_from_preview

CASES = Path(__file__).resolve().parents[1] / "cases" / "cost"
POOL = "urn:pulumi:prod::gpufleet::gpufleet:cloud:AwsPool::pool"  # tags set prices in a pool only
PRICES = {"on_demand": 100.0, "reserved_1y": 60.0, "reserved_3y": 40.0, "dws_flex": 50.0}


def fake_book(prices):
    def lookup(_cloud, region, item, purchase):
        usd = prices.get(purchase) if item == "p4d.24xlarge" else 0.0 if purchase == "on_demand" else None
        return None if usd is None else Price(usd, "unit", "2026-11-01", "by hand", "high", region, purchase)

    return PriceBook(lookup, lookup)


def machine_charge(make_resource, tag, prices=PRICES, **tags):
    resource = make_resource(
        inputs={
            "instanceType": "p4d.24xlarge",
            "region": "us-east-1",
            "tags": {"gpufleet-purchase": tag, "gpufleet-pool": "train", **tags},
        },
        parent=POOL,
    )
    bill = cost.estimate([resource], book=fake_book(prices)).bill
    (charge,) = (each for each in bill.charges if each.component.startswith("machine"))
    return charge, [gap.reason for gap in bill.unpriced_resources]


@pytest.mark.parametrize(
    ("tag", "purchase", "usd"),
    [
        ("committed-1y", "reserved_1y", 60),
        ("committed-3y", "reserved_3y", 40),
        ("flex_start", "dws_flex", 50),
        ("capacity_block", "capacity_block", 100),
        ("ladder-of-nobody", "on_demand", 100),
    ],
)
def test_tag_gives_the_price_of_its_purchase(make_resource, tag, purchase, usd):
    charge, _ = machine_charge(make_resource, tag)
    assert (charge.purchase, charge.usd_per_hour.expected) == (purchase, Decimal(usd))


def test_commitment_bills_around_the_clock_and_flex_start_its_planned_hours(make_resource):
    hours = {"gpufleet-hours-per-month": "100"}
    assert machine_charge(make_resource, "committed-1y", **hours)[0].hours_per_month == 730
    assert machine_charge(make_resource, "flex_start", **hours)[0].hours_per_month == 100


def test_block_without_a_price_is_reported_and_has_no_upper_bound(make_resource):
    reasons = machine_charge(make_resource, "capacity_block")[1]
    assert "no capacity_block price for p4d.24xlarge in us-east-1; counted at on-demand" in reasons
    charge, reasons = machine_charge(make_resource, "capacity_block", PRICES | {"capacity_block": 31.464})
    assert charge.usd_per_hour.expected == Decimal("31.464")
    assert [reason for reason in reasons if "p4d" in reason] == []


BLOCK_ID = "cr-0123456789abcdef0"
IN_BLOCK = {
    "instanceType": "p4d.24xlarge",
    "region": "us-east-1",
    "instanceMarketOptions": {"marketType": "capacity-block"},
    "capacityReservationSpecification": {"capacityReservationTarget": {"capacityReservationId": BLOCK_ID}},
}


def list_reasons(*resources):
    bill = cost.estimate(list(resources), book=fake_book(PRICES)).bill
    return [gap.reason for gap in bill.unpriced_resources if "capacity block" in gap.reason]


def test_bought_capacity_block_and_its_machines_are_one_gap(make_resource):
    """The block is the purchase: its instances and groups bill nothing beside it."""
    kind = "aws:ec2/capacityBlockReservation:CapacityBlockReservation"
    block = make_resource("block", kind, {"region": "us-east-1"}, id=BLOCK_ID)
    node = make_resource("node", inputs=IN_BLOCK)
    template = make_resource(
        "template", "aws:ec2/launchTemplate:LaunchTemplate", IN_BLOCK, id="lt-0123456789abcdef0"
    )
    group = make_resource(
        "group",
        "aws:autoscaling/group:Group",
        {
            "minSize": 2,
            "maxSize": 2,
            "region": "us-east-1",
            "launchTemplate": {"id": template.id, "version": "1"},
        },
    )
    (reason,) = list_reasons(block, node, template, group)
    assert reason.startswith("a capacity block is prepaid at its offering's price")
    assert list_reasons(node) == list_reasons(template, group)  # a block from elsewhere
    assert list_reasons(node)[0].startswith("runs in a capacity block")


def test_a_group_without_a_size_is_priced_by_its_resize_requests(book):
    preview = json.loads((CASES / "gcp-resize-request.json").read_text(), parse_float=str)["preview"]
    for step in preview["steps"]:
        step["newState"]["inputs"].pop("targetSize", None)
    change = change_from_preview(preview)
    found = cost.diff(change.before, change.after, change=change, book=book)
    assert [gap.reason.split(",")[0] for gap in found.unpriced_resources] == ["4 x n1-standard-8 for 2 h"]
