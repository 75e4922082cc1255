"""Commitments in an estimate and in a change: notes, warnings, JSON."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import jsonschema
import pytest

from gpufleet import cost
from gpufleet.cost.analysis.reports import summary
from gpufleet.cost.analysis.reports.json_document import build_diff_document, load_diff_schema
from gpufleet.cost.pricing.commitments import compute_break_evens
from gpufleet.cost.pricing.commitments.model import CommitmentFile
from gpufleet.engine import StateResource
from gpufleet.fleet import MonthlyBudget

TODAY = date(2026, 11, 21)
INSTANCE = "aws:ec2/instance:Instance"


def p4d(name):
    inputs = {"instanceType": "p4d.24xlarge", "region": "us-east-1"}
    return StateResource(f"urn:pulumi:s::p::{INSTANCE}::{name}", INSTANCE, name, inputs, {})


@pytest.fixture
def commitments():
    entry = {
        "id": "ri-1", "kind": "reserved_instance", "region": "us-east-1", "machine": "p4d.24xlarge", "count": 1,
        "usd_per_hour": 12.5, "start": "2026-01-01", "end": "2026-12-31", "source": "invoice",
    }  # fmt: skip
    return CommitmentFile.model_validate({"commitments": [entry]}).commitments


def test_second_machine_costs_its_list_price(commitments, book):
    diff = cost.diff([p4d("a")], [p4d("a"), p4d("b")], commitments=commitments, book=book, today=TODAY)
    assert diff.change_usd_per_month == Decimal("16029.08")  # 21.957642 * 730
    assert diff.before.usd_per_month.expected == 0


def test_covered_machine_adds_no_cost(commitments, book):
    diff = cost.diff([], [p4d("a")], commitments=commitments, book=book, today=TODAY)
    assert diff.change_usd_per_month == 0
    assert not [line for line in diff.warnings if "unused" in line]


def test_deletion_of_a_covered_machine_saves_nothing_and_reports_the_unused_commitment(commitments, book):
    diff = cost.diff([p4d("a")], [], commitments=commitments, book=book, today=TODAY)
    assert diff.change_usd_per_month == 0
    prefix = "Reserved Instance ri-1: $9,125.00 more a month unused after this change, $9,125.00 in all"
    assert any(line.startswith(prefix) and line.endswith("paid until 2026-12-31") for line in diff.warnings)


def test_estimate_notes_cost_and_end_of_commitments(commitments, book):
    estimate = cost.estimate([p4d("a")], commitments=commitments, book=book, today=TODAY)
    assert "commitments cost $9,125.00 a month on top, used or not; $0.00 of it is unused" in estimate.notes
    assert any("ends in 40 days" in note for note in estimate.notes)  # 21 November to 31 December
    assert estimate.budget_verdict == "no budget is declared; commitments of $9,125.00 a month come on top"


def test_json_names_the_commitment_and_matches_the_schema(commitments, book):
    document = build_diff_document(cost.diff([], [p4d("a")], commitments=commitments, book=book, today=TODAY))
    jsonschema.validate(document, load_diff_schema())
    assert {line["covered_by"] for line in document["resources"] if line["component"] == "machine"} == {
        "ri-1"
    }
    assert document["commitments"] == [
        {
            "id": "ri-1", "kind": "reserved_instance", "until": "2026-12-31",
            "usd_per_month": 9125.0, "used": 1.0, "unused_usd_per_month": 0.0,
        }
    ]  # fmt: skip


def test_every_report_names_the_commitment(commitments, book):
    diff = cost.diff([p4d("a")], [], commitments=commitments, book=book, today=TODAY)
    for form in ("table", "markdown", "html"):
        assert "ri-1" in cost.render_diff(diff, form)


@pytest.mark.parametrize(
    ("term", "against", "hours"),
    [
        # 14 * 730 / 21.957642 and 12 * 730 / 21.957642; against spot 14 * 730 / 16 and 12 * 730 / 16
        ("reserved_1y", "on_demand", "465.44"),
        ("reserved_3y", "on_demand", "398.95"),
        ("reserved_1y", "spot", "638.75"),
        ("reserved_3y", "spot", "547.50"),
    ],
)
def test_break_even_matches_a_manual_calculation(book, term, against, hours):
    break_evens = {
        (entry.commitment, entry.against): entry
        for entry in compute_break_evens("aws", "us-east-1", "p4d.24xlarge", book)
    }
    assert round(break_evens[(term, against)].break_even_hours_per_month, 2) == Decimal(hours)


def test_break_even_without_an_end_or_a_price_is_reported(book):
    g5 = {
        (entry.commitment, entry.against): entry.break_even_verdict
        for entry in compute_break_evens("aws", "us-east-1", "g5.2xlarge", book)
    }
    assert g5[("reserved_1y", "spot")] == "never: spot is cheaper even around the clock"  # 0.76356 > 0.43632
    assert g5[("reserved_1y", "on_demand")] == "above 460 hours a month (63 % of it)"  # 730 * 0.76356 / 1.212
    assert g5[("reserved_3y", "spot")] == "no usable reserved_3y price in the catalogue"


def test_group_at_its_maximum_size_leaves_less_commitment_for_the_next_one(book):
    entry = {
        "id": "ri-2", "kind": "reserved_instance", "region": "us-east-1", "machine": "p4d.24xlarge", "count": 2,
        "usd_per_hour": 12.5, "start": "2026-01-01", "end": "2027-01-01", "source": "invoice",
    }  # fmt: skip
    commitments = CommitmentFile.model_validate({"commitments": [entry]}).commitments
    template_type, inputs = "aws:ec2/launchTemplate:LaunchTemplate", p4d("b").inputs
    template = StateResource(f"urn:pulumi:s::p::{template_type}::t", template_type, "t", inputs, {}, id="t")
    group_type = "aws:autoscaling/group:Group"
    inputs = {
        "minSize": 0,
        "desiredCapacity": 1,
        "maxSize": 4,
        "region": "us-east-1",
        "launchTemplate": {"id": "t"},
    }
    group = StateResource(f"urn:pulumi:s::p::{group_type}::a", group_type, "a", inputs, {}, id="a")
    month = cost.price_resources(
        [template, group, p4d("b")], book, commitments=commitments, on_date=TODAY
    ).usd_per_month
    # none of 1, none of 2, and of 4 + 1 all but two: 3 * 21.957642 * 730
    assert (month.low, month.expected, month.high) == (0, 0, Decimal("48087.23598"))


def test_every_report_of_a_diff_notes_the_cost_and_the_end_of_commitments(commitments, book):
    diff = cost.diff([], [p4d("a")], commitments=commitments, book=book, today=TODAY)
    for form in ("table", "markdown", "html", "junit", "json"):
        text = cost.render_diff(diff, form).replace("\\", "")
        assert "9,125.00 a month on top, used or not" in text
        assert "it ends in 40 days" in text


def commitment(**changed):
    entry = {
        "id": "ri-2", "kind": "reserved_instance", "region": "us-east-1", "machine": "p4d.24xlarge", "count": 1,
        "usd_per_hour": 12.5, "start": "2026-01-01", "end": "2026-12-31", "source": "invoice", **changed,
    }  # fmt: skip
    return CommitmentFile.model_validate({"commitments": [entry]}).commitments


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"end": "2026-11-01"}, "ri-2 ended on 2026-11-01: it covers nothing and its cost is not included"),
        (
            {"start": "2026-12-01"},
            "ri-2 begins on 2026-12-01: it covers nothing yet and its cost is not included",
        ),
        ({"machine": "p4d.24xlrage"}, "which is not in the catalogue; did you mean p4d.24xlarge?"),
        ({"machine": "z99.large"}, "ri-2 is for z99.large, which is not in the catalogue"),
    ],
)
def test_commitment_that_does_not_apply_is_a_warning(book, changed, message):
    commitments = commitment(**changed)
    assert any(
        message in note
        for note in cost.diff([], [p4d("a")], commitments=commitments, book=book, today=TODAY).notes
    )
    assert any(
        message in note
        for note in cost.estimate([p4d("a")], commitments=commitments, book=book, today=TODAY).notes
    )
    sound = cost.estimate([p4d("a")], commitments=commitment(), book=book, today=TODAY)
    assert not any(message in note for note in sound.notes)


def test_headline_of_a_met_budget_adds_the_cost_of_commitments(commitments, book):
    same = [p4d("a")]
    diff = cost.diff(
        same, same, commitments=commitments, budget=MonthlyBudget(max=1000), book=book, today=TODAY
    )
    headline = summary.format_change_headline(diff)
    assert "within its budget of $1,000.00" in headline
    assert headline.endswith("; commitments of $9,125.00 a month come on top.")
