"""Test every golden program under every operation against its manual arithmetic."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import golden
import pytest

from gpufleet import cost
from gpufleet.cost.inputs.stack_change import change_from_preview, resources_from_state
from gpufleet.cost.money import round_to_cents
from gpufleet.cost.pricing.commitments.model import CommitmentFile

CASES = {case.slug: case for case in golden.load_cases()}
DAY = date(2026, 11, 21)


def commitments_of_case(case):
    return CommitmentFile.model_validate({"commitments": case.commitments}).commitments


def assert_bill_matches(bill, side):
    """Compare a bill with the manual calculation: every charge, the month, its bounds and unpriced parts."""
    amounts = {f"{charge.name} {charge.component}": charge.usd_per_month.expected for charge in bill.charges}
    assert amounts == side.rows
    month = bill.usd_per_month
    assert (month.low, month.expected, month.high) == (side.low, side.total, side.high)
    reasons = sorted(gap.reason for gap in bill.unpriced_resources)
    assert len(reasons) == len(side.unpriced), reasons
    assert all(any(expected in reason for reason in reasons) for expected in side.unpriced)


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.mark.parametrize("operation", golden.OPERATIONS)
def test_change_has_the_manually_calculated_cost(case, operation, golden_book):
    change = change_from_preview(golden.preview(case, operation))
    cost_diff = cost.diff(
        change.before,
        change.after,
        change=change,
        book=golden_book,
        commitments=commitments_of_case(case),
        today=DAY,
    )
    before, after = case.sides(operation)
    assert_bill_matches(cost_diff.before, before)
    assert_bill_matches(cost_diff.after, after)
    assert cost_diff.change_usd_per_month == round_to_cents(after.total) - round_to_cents(before.total)
    assert cost_diff.one_off_usd == (
        round_to_cents(case.overlap) if operation.startswith("replace") else Decimal(0)
    )
    assert not cost_diff.partial


def test_deployed_state_has_the_manually_calculated_cost(case, golden_book):
    for side in (case.old, case.new):
        resources = resources_from_state(golden.state(case, side))
        assert_bill_matches(
            cost.price_resources(resources, golden_book, commitments=commitments_of_case(case), on_date=DAY),
            side,
        )


@pytest.fixture(scope="module")
def evaluated_resources(tmp_path_factory):
    """Evaluate one program that declares them all, without an engine, before and after."""
    folder = golden.write_program(
        tmp_path_factory.mktemp("golden"), list(CASES.values()), {"before": "old", "after": "new"}
    )
    return cost.evaluate_program(folder, "before"), cost.evaluate_program(folder, "after")


def test_program_evaluated_without_an_engine_has_the_same_cost(case, evaluated_resources, golden_book):
    for resources, side in zip(evaluated_resources, (case.old, case.new), strict=True):
        case_resources = golden.select_case_resources(resources, case)
        assert {resource.name for resource in case_resources} >= side.program.keys()
        assert_bill_matches(
            cost.price_resources(
                case_resources, golden_book, commitments=commitments_of_case(case), on_date=DAY
            ),
            side,
        )


def test_stack_with_all_cases_costs_their_sum(evaluated_resources, golden_book):
    cases = [case for case in CASES.values() if not case.commitments]
    components = {case.component for case in cases}
    for resources, side in zip(evaluated_resources, ("old", "new"), strict=True):
        case_resources = [
            resource for resource in resources if resource.urn.split("::")[2].split("$")[0] in components
        ]
        bill = cost.price_resources(case_resources, golden_book)
        assert bill.usd_per_month.expected == sum(getattr(case, side).total for case in cases)
