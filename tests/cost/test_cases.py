"""Every case file under tests/cases/cost: a preview, and what each side costs, as price times count times hours."""

from __future__ import annotations

import functools
import json
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest

from gpufleet import cost
from gpufleet.cost.analysis.reports.json_document import build_diff_document, load_diff_schema
from gpufleet.cost.inputs.stack_change import change_from_preview
from gpufleet.cost.money import round_to_cents

CASES = sorted((Path(__file__).resolve().parents[1] / "cases" / "cost").glob("*.json"))


def total(rows):
    return sum((Decimal(a) * Decimal(b) * Decimal(c) for a, b, c in rows), Decimal(0))


@pytest.fixture(params=CASES, ids=lambda path: path.stem)
def case(request):
    return json.loads(request.param.read_text(), parse_float=str)


@pytest.fixture
def cost_diff(case, book):
    document = json.loads(json.dumps(case["preview"]))
    change = change_from_preview(document)
    return cost.diff(change.before, change.after, change=change, book=book)


def test_monthly_cost_before_the_change_matches_the_case(case, cost_diff):
    assert cost_diff.before.usd_per_month.expected == total(case["expect"]["before"])


def test_monthly_cost_after_the_change_matches_the_case(case, cost_diff):
    expect, month = case["expect"], cost_diff.after.usd_per_month
    assert month.expected == total(expect["after"])
    assert month.low == total(expect.get("low", expect["after"]))
    assert month.high == total(expect.get("high", expect["after"]))


def test_one_off_cost_matches_the_case(case, cost_diff):
    if "one_off" in case["expect"]:
        assert cost_diff.one_off_usd == round_to_cents(total(case["expect"]["one_off"]))


def test_unpriced_resources_match_the_case(case, cost_diff):
    expected = case["expect"].get("unpriced", [])
    reasons = [gap.reason for gap in cost_diff.unpriced_resources]
    assert all(any(part in reason for reason in reasons) for part in expected)
    assert bool(reasons) == bool(expected)


def test_warnings_match_the_case(case, cost_diff):
    expected = case["expect"].get("warnings", [])
    assert len(cost_diff.warnings) == len(expected)
    assert all(part in warning for part, warning in zip(expected, cost_diff.warnings, strict=True))
    assert cost_diff.partial is case["expect"].get("partial", False)


def test_operations_and_pools_match_the_case(case, cost_diff):
    lines = {line.shown_charge.name: line for line in cost_diff.lines}
    for name, op in case["expect"].get("ops", {}).items():
        assert lines[name].op == op
    for name, pool in case["expect"].get("pools", {}).items():
        assert lines[name].shown_charge.pool == pool


@functools.cache
def make_diff_validator():
    """Return a validator of differences: ``jsonschema.validate`` checks the schema itself each time."""
    schema = load_diff_schema()
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    return validator(schema)


def test_every_case_matches_the_schema(cost_diff):
    make_diff_validator().validate(build_diff_document(cost_diff))
