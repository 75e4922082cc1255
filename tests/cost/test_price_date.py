"""Test that price changes and code changes are separated."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.catalog import Price
from gpufleet.cost import PriceBook
from gpufleet.cost.analysis.price_date import PriceDates
from gpufleet.cost.analysis.reports.json_document import build_diff_document
from gpufleet.cost.money import round_to_cents

JULY, NOVEMBER = date(2026, 7, 1), date(2026, 11, 1)
# Per hour on each day: p4d grows cheaper, the disk stays, g5 has a price on the later day only.
PRICES = {
    JULY: {"p4d.24xlarge": 32.7726, "ebs:gp3": 0.0001},
    NOVEMBER: {"p4d.24xlarge": 21.9576, "ebs:gp3": 0.0001, "g5.2xlarge": 1.212},
}
MOVED = (Decimal("32.7726") - Decimal("21.9576")) * 730  # 7,894.95
P4D = Decimal("32.7726") * 730 + Decimal("0.01") * 730  # with 100 GiB of disk: 23,931.30 in July


def hand_written_book(day):
    def lookup(_cloud, region, item, purchase):
        usd = PRICES[day].get(item) if purchase == "on_demand" else None
        return usd and Price(usd, "unit", day.isoformat(), "written by hand", "high", region, purchase)

    return PriceBook(lookup, lookup)


@pytest.fixture
def diff_on_dates():
    dates = PriceDates(JULY, NOVEMBER, hand_written_book)
    return lambda before, after: cost.diff(before, after, change=cost.StackChange(stack="prod"), dates=dates)


def test_same_stack_on_two_dates_differs_by_prices_only(make_resource, diff_on_dates):
    cost_diff = diff_on_dates([make_resource()], [make_resource()])
    assert cost_diff.change_usd_per_month == round_to_cents(-MOVED)
    assert (cost_diff.prices.by_code, cost_diff.prices.by_prices, cost_diff.prices.unexplained) == (
        0,
        round_to_cents(-MOVED),
        0,
    )
    assert cost_diff.prices.same_stack
    table = cost.render_diff(cost_diff, "table")
    assert table.startswith(
        "With the prices of 2026-11-01 instead of 2026-07-01, the unchanged prod costs $7,894.95 (-32.99%) less"
    )
    assert "Nothing in the code was compared" in table
    assert "This change" not in table


def test_code_and_price_effects_add_up(make_resource, diff_on_dates):
    cost_diff = diff_on_dates([make_resource("a")], [make_resource("a"), make_resource("b")])
    price_effect = cost_diff.prices
    assert price_effect.by_code == round_to_cents(P4D)  # the second machine, at the old prices
    assert price_effect.by_prices == round_to_cents(-2 * MOVED)  # both machines
    assert (
        price_effect.by_code + price_effect.by_prices + price_effect.unexplained
        == cost_diff.change_usd_per_month
    )
    assert "comes from the code and -$15,789.90 from prices" in cost.render_diff(
        cost_diff, "markdown"
    ).replace("\\", "")


def test_price_on_one_date_only_is_not_a_price_change(make_resource, diff_on_dates):
    new = make_resource("g", inputs={"instanceType": "g5.2xlarge", "region": "us-east-1"})
    cost_diff = diff_on_dates([new, make_resource()], [new, make_resource()])
    assert cost_diff.change_usd_per_month == round_to_cents(-MOVED)
    (gap,) = (gap for gap in cost_diff.unpriced_resources if gap.name == "g" and gap.component == "machine")
    assert gap.reason == (
        "g5.2xlarge in us-east-1 has a price on only one of 2026-07-01 and 2026-11-01; left out on both sides"
    )


def test_price_on_one_date_counts_for_neither_effect(make_resource, diff_on_dates):
    new = make_resource("g", inputs={"instanceType": "g5.2xlarge", "region": "us-east-1"})
    price_effect = diff_on_dates([make_resource()], [make_resource(), new]).prices
    # The disk that the image sets has a price on both dates.
    assert (price_effect.by_code, price_effect.by_prices) == (Decimal("0.58"), round_to_cents(-MOVED))
    assert price_effect.unexplained == round_to_cents(Decimal("1.212") * 730)


def test_without_dates_there_is_no_price_effect(make_resource, book):
    assert cost.diff([make_resource()], [make_resource()], book=book).prices is None


def test_json_has_total_code_and_price_effects(make_resource, diff_on_dates):
    prices = build_diff_document(diff_on_dates([make_resource()], [make_resource()]))["prices"]
    assert prices == {
        "before": "2026-07-01",
        "after": "2026-11-01",
        "usd_per_month_by_code": 0.0,
        "usd_per_month_by_prices": -7894.95,
        "usd_per_month_unexplained": 0.0,
        "same_stack": True,
    }
