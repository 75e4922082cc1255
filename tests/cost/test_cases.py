"""Every case file under tests/cases/cost: a preview, and what each side costs, as price times count times hours."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.cost.money import round_to_cents

CASES = sorted((Path(__file__).resolve().parents[1] / "cases" / "cost").glob("*.json"))


def total(rows):
    return sum((Decimal(a) * Decimal(b) * Decimal(c) for a, b, c in rows), Decimal(0))


@pytest.fixture(params=CASES, ids=lambda path: path.stem)
def case(request):
    return json.loads(request.param.read_text(), parse_float=str)


@pytest.fixture
def found(case, book):
    document = json.loads(json.dumps(case["preview"]))
    change = cost.change_from_preview(document)
    return cost.diff(change.before, change.after, change=change, book=book)


def test_month_before(case, found):
    assert found.before.usd_per_month.expected == total(case["expect"]["before"])


def test_month_after_and_its_bounds(case, found):
    expect, month = case["expect"], found.after.usd_per_month
    assert month.expected == total(expect["after"])
    assert month.low == total(expect.get("low", expect["after"]))
    assert month.high == total(expect.get("high", expect["after"]))


def test_what_the_change_costs_once(case, found):
    if "one_off" in case["expect"]:
        assert found.one_off_usd == round_to_cents(total(case["expect"]["one_off"]))


def test_what_has_no_price_is_listed(case, found):
    wanted = case["expect"].get("unpriced", [])
    reasons = [gap.reason for gap in found.unpriced]
    assert all(any(part in reason for reason in reasons) for part in wanted)
    assert bool(reasons) == bool(wanted)


def test_warnings(case, found):
    wanted = case["expect"].get("warnings", [])
    assert len(found.warnings) == len(wanted)
    assert all(part in warning for part, warning in zip(wanted, found.warnings, strict=True))
    assert found.partial is case["expect"].get("partial", False)


def test_operations_and_pools(case, found):
    lines = {line.shown.name: line for line in found.lines}
    for name, op in case["expect"].get("ops", {}).items():
        assert lines[name].op == op
    for name, pool in case["expect"].get("pools", {}).items():
        assert lines[name].shown.pool == pool


def test_every_case_meets_the_schema(found):
    import jsonschema

    jsonschema.validate(cost.diff_document(found), cost.schema())
