"""Every case under tests/cases/cost/commitments: which machines are covered, what remains to pay, what is unused."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.cost.money import round_to_cents
from gpufleet.cost.pricing.commitments.model import CommitmentFile
from gpufleet.engine import StateResource

CASES = sorted((Path(__file__).resolve().parents[2] / "cases" / "cost" / "commitments").glob("*.json"))


def resource(entry):
    urn = f"urn:pulumi:s::p::gpufleet:cloud:AwsPool${entry['type']}::{entry['name']}"
    return StateResource(urn, entry["type"], entry["name"], entry["inputs"], {})


@pytest.fixture(params=CASES, ids=lambda path: path.stem)
def case(request):
    return json.loads(request.param.read_text())


@pytest.fixture
def bill(case, book):
    commitments = CommitmentFile.model_validate({"commitments": case["commitments"]}).commitments
    resources = [resource(entry) for entry in case["resources"]]
    return cost.price_resources(
        resources, book, commitments=commitments, on_date=date.fromisoformat(case["on"])
    )


def test_machines_are_covered_by_the_expected_commitments(case, bill):
    covered = {}
    for charge in bill.charges:
        if charge.covered_by:
            covered.setdefault(charge.name, []).append([charge.covered_by, charge.quantity.expected])
    expected = {
        name: [[by, Decimal(count)] for by, count in shares]
        for name, shares in case["expect"]["covered"].items()
    }
    assert covered == expected


def test_remaining_cost_matches_the_case(case, bill):
    rows = case["expect"]["month"]
    expected = sum((Decimal(usd) * Decimal(count) * Decimal(hours) for usd, count, hours in rows), Decimal(0))
    assert bill.usd_per_month.expected == expected


def test_unused_commitments_match_the_case(case, bill):
    unused = {use.id: round_to_cents(use.unused_usd_per_month) for use in bill.commitments}
    assert unused == {name: round_to_cents(Decimal(usd)) for name, usd in case["expect"]["unused"].items()}


def test_covered_charges_cost_nothing_and_note_the_reason(bill):
    covered = [charge for charge in bill.charges if charge.covered_by]
    assert all(charge.usd_per_month.high == 0 and "covered by" in charge.note for charge in covered)
