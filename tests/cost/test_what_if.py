"""Test the cost of one stack under each kind of purchase."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.catalog import Price
from gpufleet.cost import PriceBook
from gpufleet.cost.analysis.reports.purchase import format_what_if_table
from gpufleet.cost.analysis.what_if import build_what_if_document, compare_purchase_kinds
from gpufleet.engine import StateResource

INSTANCE = "aws:ec2/instance:Instance"
PRICES = {"on_demand": 2.0, "spot": 0.5, "reserved_1y": 1.0}


def find_price(cloud, region, item, purchase):
    usd = PRICES.get(purchase)
    return usd and Price(usd, "machine", "2026-07-30", "by hand", "high", region, purchase)


@pytest.fixture
def rows():
    def instance(name, hours):
        tags = {"gpufleet-pool": "train", "gpufleet-hours-per-month": hours}
        inputs = {"instanceType": "g5.2xlarge", "region": "us-east-1", "tags": tags}
        return StateResource(
            f"urn:pulumi:s::p::gpufleet:cloud:AwsPool${INSTANCE}::{name}", INSTANCE, name, inputs, {}
        )

    book = PriceBook(find_price, find_price)
    return compare_purchase_kinds(
        cost.price_resources([instance("a", "100"), instance("b", "100")], book), book
    )


def test_every_purchase_kind_matches_a_manual_calculation(rows):
    (row,) = rows
    month = {option.kind: option.usd_per_month for option in row.options}
    assert month == {
        "on_demand": Decimal(400),  # 2 * 2.00 * 100 h
        "spot": Decimal(100),  # 2 * 0.50 * 100 h
        "reserved_1y": Decimal(1460),  # 2 * 1.00 * 730 h: a commitment bills all month
        "reserved_3y": None,
    }
    assert (row.pool, row.count, row.usd_per_month, row.cheapest_option.kind) == (
        "train",
        2,
        Decimal(400),
        "spot",
    )


def test_table_and_json_have_the_same_amounts(rows):
    (document,) = build_what_if_document(rows)
    assert document["options"]["reserved_3y"] is None
    assert document["options"]["spot"]["usd_per_month"] == 100.0
    assert document["options"]["spot"]["price"]["as_of"] == "2026-07-30"
    text = format_what_if_table(rows)
    assert "$1,460.00" in text
    assert "3Y" in text


def test_stack_without_machines_prints_a_note():
    assert format_what_if_table(()) == "nothing here has another purchase option"
