"""Test priced types by their cases on file (``tools.price_case`` says what they have), and the tables by their order.

``python -m tools.new_price`` writes a case with the bill. It fails until ``confirmed_by`` has the arithmetic, from the
prices that the provider publishes: ``2 nodes x 0.9 USD x 730 h = 1314``.
"""

from __future__ import annotations

import csv
import json
from decimal import Decimal
from pathlib import Path

import pytest

from hand_arithmetic import evaluate_arithmetic
from tools import new_price
from tools.price_case import describe_bill, format_cases, format_examples, price_case

CASES = json.loads((new_price.ROOT / new_price.CASES).read_text())
IDS = [f"{case['type']} {number}" for number, case in enumerate(CASES)]


def check_confirmation(case):
    assert case["confirmed_by"], "calculate it by hand: 2 nodes x 0.9 USD x 730 h = 1314"
    assert round(evaluate_arithmetic(case["confirmed_by"]), 4) == Decimal(case["usd_per_month"])


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_type_costs_what_its_case_says(case):
    bill = price_case(case)
    assert bill.unpriced_resources == ()
    assert describe_bill(bill) == {key: case[key] for key in ("components", "usd_per_month")}


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_bill_of_a_case_is_confirmed_by_hand(case):
    check_confirmation(case)


@pytest.mark.parametrize(
    "arithmetic", ["", "somebody", "2 nodes x 0.9 USD x 730 h = 1315", "1 node x 0.9 USD x 730 h = 657"]
)
def test_bill_that_nobody_calculated_is_noticed(arithmetic):
    with pytest.raises(AssertionError):
        check_confirmation({"usd_per_month": "1314", "confirmed_by": arithmetic})


def test_files_are_as_the_tool_writes_them():
    examples = (new_price.ROOT / new_price.EXAMPLES).read_text()
    assert format_examples(json.loads(examples)) == examples
    assert format_cases(CASES) == (new_price.ROOT / new_price.CASES).read_text()
    assert [case["type"] for case in CASES] == sorted(case["type"] for case in CASES)


@pytest.mark.parametrize(("path", "columns"), [(new_price.CHARGES, 1), (new_price.KEYS, 2)])
def test_tables_are_sorted(path, columns):
    with Path(new_price.ROOT / path).open() as file:
        keys = [row[:columns] for row in list(csv.reader(file))[1:]]
    assert keys == sorted(keys)
