from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet.cost.formatting import format_quantity_range, format_usd, format_usd_range
from gpufleet.cost.money import HOURS_PER_MONTH, Range, round_hourly_rate, round_to_cents, to_decimal


def test_price_is_an_exact_decimal():
    assert to_decimal(21.957642) * 730 == Decimal("16029.078660")
    assert to_decimal(0.1) + to_decimal(0.2) == Decimal("0.3")


def test_month_has_730_hours():
    assert HOURS_PER_MONTH == 730


@pytest.mark.parametrize(("amount", "cents"), [("0.005", "0.01"), ("0.004", "0.00"), ("2.675", "2.68")])
def test_half_a_cent_is_rounded_up(amount, cents):
    assert round_to_cents(Decimal(amount)) == Decimal(cents)


def test_hourly_rate_keeps_six_decimals():
    assert round_hourly_rate(Decimal("21.9576424")) == Decimal("21.957642")


def test_subtraction_never_goes_below_zero():
    assert Range.from_exact_value(1).subtract_down_to_zero(
        Range.from_exact_value(3)
    ) == Range.from_exact_value(0)
    difference = Range(Decimal(1), Decimal(2), Decimal(4)).subtract_down_to_zero(Range.from_exact_value(1))
    assert difference == Range(Decimal(0), Decimal(1), Decimal(3))


@pytest.mark.parametrize(
    ("amount", "sign", "text"),
    [("1234.5", False, "$1,234.50"), ("-3", False, "-$3.00"), ("3", True, "+$3.00"), ("0", True, "$0.00")],
)
def test_dollars_are_formatted_with_sign(amount, sign, text):
    assert format_usd(Decimal(amount), show_sign=sign) == text


def test_ranges_are_formatted_as_text():
    both = Range(Decimal(1), Decimal(2), Decimal(4))
    assert format_usd_range(both) == "$1.00 to $4.00"
    assert format_quantity_range(both) == "2 (1-4)"
    assert format_quantity_range(Range.from_exact_value(100)) == "100"
