"""Test AWS services: hand-calculated totals, unknown inputs, missing prices, and that the tables agree."""

from __future__ import annotations

from decimal import Decimal

import pytest

from aws_database_cases import MONTH
from aws_service_cases import CASES
from aws_service_prices import make_book, make_service, make_usage
from gpufleet.boundary import read_packaged_rows
from gpufleet.catalog import HOURS_PER_MONTH, find_cloud_part_price
from gpufleet.cost import price_resources
from gpufleet.cost.pricing.billing import load_free_resource_types, load_usage_billed_resource_types
from gpufleet.cost.pricing.pricers.aws import PRICERS
from gpufleet.cost.pricing.pricers.charge_table import load_charges
from gpufleet.engine import UnreadableValue

REGIONS = ("us-east-1", "global", "us-east-2", "eu-west-2")  # the data of some services is of one region only


def price_case(case, inputs=None):
    prices = {item: (usd, per) for item, _, usd, per in case.charges.values()}
    service = make_service(case.type, case.inputs if inputs is None else inputs)
    return price_resources([service], make_book(prices), usage=make_usage(case.amounts))


@pytest.mark.parametrize("name", CASES)
def test_service_costs_what_its_list_prices_make_by_hand(name):
    case = CASES[name]
    bill = price_case(case)
    assert [each.reason for each in bill.unpriced_resources] == []
    assert {charge.component: charge.item for charge in bill.charges} == {
        component: row[0] for component, row in case.charges.items()
    }
    for charge in bill.charges:
        quantity = Decimal(case.charges[charge.component][1])
        assert abs(charge.quantity.expected - quantity) < Decimal("1e-12"), charge.component
    assert abs(bill.usd_per_month.expected - Decimal(case.usd_per_month)) < Decimal("1e-6")


@pytest.mark.parametrize("name", CASES)
def test_service_without_prices_is_listed_by_item(name):
    case = CASES[name]
    bill = price_resources(
        [make_service(case.type, case.inputs)], make_book({}), usage=make_usage(case.amounts)
    )
    assert bill.charges == ()
    for component, (item, *_) in case.charges.items():
        reasons = [each.reason for each in bill.unpriced_resources if each.component == component]
        assert len(reasons) == 1, component
        assert item in reasons[0]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("marker", list(UnreadableValue))
def test_unreadable_inputs_never_make_a_smaller_total_without_a_reason(name, marker):
    """Each input in turn is unknown: what no longer has a price is listed, or the range still includes it."""
    case = CASES[name]
    known = price_case(case).usd_per_month.expected
    for key in case.inputs:
        bill = price_case(case, {**case.inputs, key: marker})
        assert bill.usd_per_month.high >= known or bill.unpriced_resources, key


@pytest.mark.parametrize("type_", sorted(PRICERS))
@pytest.mark.parametrize("value", [None, UnreadableValue.UNKNOWN, "", [], {}, -1, "\x1b[31m" * 50])
def test_every_pricer_accepts_any_input(type_, value):
    keys = {key for case in CASES.values() if case.type == type_ for key in case.inputs} | {
        "engine",
        "instanceType",
        "instanceClass",
        "nodeType",
        "bundleId",
        "bandwidth",
        "type",
    }
    bill = price_resources([make_service(type_, dict.fromkeys(keys, value))], make_book({}))
    assert bill.charges == ()


def test_at_least_150_types_of_aws_services_bill():
    assert len(PRICERS) >= 150


def test_no_priced_type_is_also_free_or_billed_by_use_alone():
    assert set(PRICERS) & {*load_free_resource_types(), *load_usage_billed_resource_types()} == set()


def test_every_usage_key_of_the_table_is_one_that_a_usage_file_may_have():
    known = {(row["type"], row["key"]) for row in read_packaged_rows("gpufleet.cost", "data/usage_keys.csv")}
    used = {
        (type_, charge.key)
        for type_, charges in load_charges("aws:").items()
        for charge in charges
        if charge.is_by_use
    }
    assert used
    assert used - known == set()


def test_embedded_prices_are_the_list_prices_of_the_cases():
    """Compare the prices that the hand calculations name with those of the catalogue, where it has them."""
    differences, compared = [], 0
    for case in CASES.values():
        for item, _, usd, per in case.charges.values():
            embedded = next(
                filter(None, (find_cloud_part_price("aws", each, item) for each in REGIONS)), None
            )
            if embedded is None:
                continue
            listed = Decimal(usd) / HOURS_PER_MONTH if per == MONTH else Decimal(usd)
            compared += 1
            if abs(Decimal(str(embedded.usd_per_hour)) - listed) > listed * Decimal("0.005"):
                differences.append((item, embedded.usd_per_hour, listed))
    assert differences == []
    assert compared >= 60
