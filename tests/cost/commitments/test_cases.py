"""Every case under tests/cases/cost/commitments: who is covered by what, what is left to pay, what runs empty."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.cost.money import round_to_cents
from gpufleet.cost.pricing.commitments.model import Commitments
from gpufleet.engine import Resource

CASES = sorted((Path(__file__).resolve().parents[2] / "cases" / "cost" / "commitments").glob("*.json"))


def resource(told):
    urn = f"urn:pulumi:s::p::{told['type']}::{told['name']}"
    return Resource(urn, told["type"], told["name"], told["inputs"], {})


@pytest.fixture(params=CASES, ids=lambda path: path.stem)
def case(request):
    return json.loads(request.param.read_text())


@pytest.fixture
def bill(case, book):
    held = Commitments.model_validate({"commitments": case["commitments"]}).commitments
    resources = [resource(told) for told in case["resources"]]
    return cost.price_resources(resources, book, commitments=held, on=date.fromisoformat(case["on"]))


def test_who_is_covered_by_what(case, bill):
    found = {}
    for charge in bill.charges:
        if charge.covered_by:
            found.setdefault(charge.name, []).append([charge.covered_by, charge.quantity.expected])
    wanted = {
        name: [[by, Decimal(count)] for by, count in shares]
        for name, shares in case["expect"]["covered"].items()
    }
    assert found == wanted


def test_what_is_left_to_pay(case, bill):
    rows = case["expect"]["month"]
    wanted = sum((Decimal(usd) * Decimal(count) * Decimal(hours) for usd, count, hours in rows), Decimal(0))
    assert bill.usd_per_month.expected == wanted


def test_what_runs_empty(case, bill):
    found = {use.id: round_to_cents(use.unused_usd_per_month) for use in bill.commitments}
    assert found == {name: round_to_cents(Decimal(usd)) for name, usd in case["expect"]["unused"].items()}


def test_covered_charges_cost_nothing_and_say_why(bill):
    covered = [charge for charge in bill.charges if charge.covered_by]
    assert all(charge.usd_per_month.high == 0 and "covered by" in charge.note for charge in covered)
