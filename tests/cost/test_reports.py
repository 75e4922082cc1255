from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from decimal import Decimal
from html.parser import HTMLParser

import pytest

from gpufleet import cost
from gpufleet.cost import CostPolicy
from gpufleet.cost.analysis.diff import compare_bills
from gpufleet.cost.analysis.estimate import list_price_notes
from gpufleet.cost.analysis.reports import summary
from gpufleet.engine import StateResource
from gpufleet.fleet import MonthlyBudget


@pytest.fixture
def grown_diff(make_resource, book):
    """Return a difference: a second p4d, which exceeds the budget, and an unknown type."""
    strange = make_resource("s", type_="aws:medialive/channel:Channel")
    return cost.diff(
        [make_resource("a"), strange],
        [make_resource("a"), make_resource("b"), strange],
        CostPolicy(),
        change=cost.StackChange(stack="prod"),
        budget=MonthlyBudget(max=20000),
        book=book,
    )


def test_markdown_begins_with_a_plain_sentence(grown_diff):
    first = cost.render_diff(grown_diff, "markdown").splitlines()[0]
    assert first == (
        r"**This change raises the monthly cost of prod by \$16,036.38 (+100.00%) to \$32,072.76, "
        r"\$12,072.76 over its budget of \$20,000.00, not counting 1 item without a price.**"
    )


@pytest.mark.parametrize(
    ("has_policy", "budget", "is_named"), [(False, 20000, True), (True, 20000, False), (False, 40000, False)]
)
def test_broken_budget_without_a_policy_is_no_gate_and_says_so(grown_diff, has_policy, budget, is_named):
    difference = compare_bills(
        "prod", grown_diff.before, grown_diff.after, budget_usd_per_month=Decimal(budget)
    )
    difference = replace(difference, policy=grown_diff.policy) if has_policy else difference
    for name in ("table", "markdown", "html"):
        assert ("The budget is not enforced here" in cost.render_diff(difference, name)) is is_named


def test_markdown_collapses_unchanged_resources(grown_diff):
    text = cost.render_diff(grown_diff, "markdown")
    folded = text.split("<details>")[1]
    assert "2 unchanged lines" in folded
    assert "| same | a machine |" in folded
    assert "| same |" not in text.split("<details>")[0]


def test_report_of_an_unchanged_stack_states_no_change(make_resource, book):
    cost_diff = cost.diff([make_resource()], [make_resource()], book=book)
    assert cost.render_diff(cost_diff, "table").startswith(
        "The monthly cost of this stack does not change: it stays at $16,036.38."
    )


def test_lower_cost_is_reported_as_lower(make_resource, book):
    cost_diff = cost.diff([make_resource(), make_resource("b")], [make_resource()], book=book)
    assert "lowers the monthly cost of this stack by $16,036.38 (-50.00%)" in cost.render_diff(
        cost_diff, "table"
    )


def test_table_lists_prices_with_date_and_source(grown_diff):
    text = cost.render_diff(grown_diff, "table")
    assert "as of 2026-07-06, written by hand" in text
    assert "unknown type aws:medialive/channel:Channel" in text


def test_json_has_the_documented_fields(grown_diff):
    document = json.loads(cost.render_diff(grown_diff, "json"))
    change = {"usd_per_month": 16036.38, "percent": 100.0, "is_known": True, "unknown": []}
    assert document["change"] == change
    line = next(
        resource
        for resource in document["resources"]
        if resource["name"] == "b" and resource["component"] == "machine"
    )
    assert (line["op"], line["quantity"], line["after_usd_per_hour"]) == ("create", 1.0, 21.957642)
    assert line["price"] == {"usd_per_hour": 21.957642, "as_of": "2026-07-06", "source": "written by hand"}


def test_json_resources_sum_to_the_monthly_total(grown_diff):
    document = json.loads(cost.render_diff(grown_diff, "json"))
    month = sum(line["after_usd_per_hour"] * line["hours_per_month"] for line in document["resources"])
    assert month == pytest.approx(document["after"]["usd_per_month"], abs=0.01)


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href")]
        assert tag != "script"


def test_html_loads_no_external_resource(grown_diff, make_resource, book):
    reader = Links()
    reader.feed(cost.render_diff(grown_diff, "html"))
    assert reader.found == []
    hostile = cost.diff([], [make_resource("<script>alert(1)</script>")], book=book)
    assert "<script>" not in cost.render_diff(hostile, "html")


def test_estimate_compares_the_month_with_the_budget(make_resource, book):
    estimate = cost.estimate([make_resource()], stack="prod", book=book)
    assert estimate.budget_verdict == "no budget is declared"
    text = cost.render_estimate(estimate, "table")
    assert text.startswith("prod: $16,036.38 a month, $21.97 an hour while all of it runs")
    assert json.loads(cost.render_estimate(estimate, "json"))["total"]["usd_per_month"] == 16036.38


def test_estimate_lists_machines_without_a_price(make_resource, book):
    strange = make_resource("b", inputs={"instanceType": "p9.huge", "region": "us-east-1"})
    bill = cost.price_resources([make_resource(), strange], book)
    estimate = cost.CostEstimate("prod", bill, MonthlyBudget(max=60000))
    first, second = cost.render_estimate(estimate, "table").splitlines()[:2]
    missing = len(bill.unpriced_resources)
    assert f", not counting {missing} item" in first
    assert second.strip() == "unknown whether it is within the budget of $60,000.00: 1 machine has no price"
    assert estimate.is_within_budget is None


def test_exceeded_budget_is_reported_despite_machines_without_a_price(make_resource, book):
    strange = make_resource("b", inputs={"instanceType": "p9.huge", "region": "us-east-1"})
    estimate = cost.CostEstimate(
        "prod", cost.price_resources([make_resource(), strange], book), MonthlyBudget(max=1)
    )
    assert estimate.budget_verdict.startswith("over the budget of $1.00")
    assert estimate.is_within_budget is False


def test_violated_policy_is_in_every_report(make_resource, book):
    cost_diff = cost.diff([], [make_resource()], CostPolicy(max_increase_usd_per_month=Decimal(1)), book=book)
    for form in ("table", "markdown", "html"):
        assert "max_increase_usd_per_month" in cost.render_diff(cost_diff, form).replace("\\", "")


def test_machine_without_a_price_makes_the_change_unknown(make_resource, book):
    named = {"region": "us-east-1", "rootBlockDevice": {"volumeSize": 100, "volumeType": "gp3"}}
    known, unknown = make_resource(), make_resource(inputs={**named, "instanceType": "zz.large"})
    for before, after, message in [
        (known, unknown, "no price for 1 changed resource, with 1 machine after the change"),
        (unknown, known, "no price for 1 changed resource, with 1 machine before the change"),
    ]:
        headline = summary.format_change_headline(cost.diff([before], [after], book=book))
        assert headline.startswith("The effect of this change on the monthly cost of ")
        assert f"is not known: {message}. What has a price " in headline
        assert "does not change" not in headline
    headline = summary.format_change_headline(cost.diff([unknown], [unknown], book=book))
    assert "does not change" in headline
    assert headline.endswith("not counting 1 item without a price.")


def elastic_group():
    """Make a group of one g5.2xlarge that may grow to 40: 892.06 to 35,682.40 a month with disks."""

    def make_resource(kind, name, id_, inputs):
        inputs = {"region": "us-east-1", **inputs}
        return StateResource(f"urn:pulumi:prod::p::{kind}::{name}", kind, name, inputs, {}, id=id_)

    disks = [{"ebs": {"volumeSize": 100, "volumeType": "gp3"}}]
    template = {"instanceType": "g5.2xlarge", "blockDeviceMappings": disks}
    group = {"minSize": 0, "desiredCapacity": 1, "maxSize": 40, "launchTemplate": {"id": "lt-t"}}
    group["vpcZoneIdentifiers"] = ["subnet-outside"]
    return [
        make_resource("aws:ec2/launchTemplate:LaunchTemplate", "t", "lt-t", template),
        make_resource("aws:autoscaling/group:Group", "g", None, group),
    ]


def test_limit_on_the_upper_bound_uses_the_maximum_size(book):
    for limit, broken in [(35_000, True), (36_000, False)]:
        policy = CostPolicy(max_high_usd_per_month=Decimal(limit), budget_usd_per_month=Decimal(1000))
        verdict = cost.diff([], elastic_group(), policy, book=book).policy
        assert [violation.message for violation in verdict.violations] == broken * [
            "$35,682.40 a month at maximum size is over $35,000.00"
        ]
        assert [check.limit for check in verdict.checks] == ["budget_usd_per_month", "max_high_usd_per_month"]


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (10_000, "within its budget of $10,000.00, up to $25,682.40 over it at maximum size"),
        (100_000, "within its budget of $100,000.00."),
    ],
)
def test_budget_verdict_names_the_excess_at_maximum_size(book, limit, message):
    group = elastic_group()
    cost_diff = cost.diff([], group, budget=MonthlyBudget(max=limit), book=book)
    assert message in summary.format_change_headline(cost_diff)
    estimate = cost.estimate(group, book=book)
    with_budget = replace(estimate, budget=MonthlyBudget(max=limit))
    assert ("over it at maximum size" in with_budget.budget_verdict) == ("over it" in message)


def test_missing_prices_print_one_hint_to_import_prices(make_resource, book):
    inputs = {"instanceType": "zz.large", "region": "us-east-1"}
    cost_diff = cost.diff([], [make_resource(name, inputs=inputs) for name in "ab"], book=book)
    assert sum("gpufleet prices import" in note for note in cost_diff.notes) == 1
    assert not any("prices import" in note for note in cost.diff([], [make_resource()], book=book).notes)


def test_difference_names_the_costs_that_it_excludes(make_resource, book):
    cost_diff = cost.diff([], [make_resource()], book=book)
    excluded = "traffic, licences of applications, support and taxes are not in these figures"
    assert all(excluded in cost.render_diff(cost_diff, name) for name in ("table", "markdown", "json"))


def test_usage_units_are_not_multiplied_by_hours():
    assert summary._unit_text("vcpu_second") == "vCPU-second"
    assert summary._unit_text("gib") == "GiB and hour"
    assert summary._unit_text("load_balancer") == "load balancer and hour"


def test_disk_is_priced_by_the_month_as_in_the_price_list(make_resource):
    (line,) = (
        line
        for line in summary.format_price_sources(cost.price_resources([make_resource()]).charges)
        if line.startswith("ebs:gp3")
    )
    assert line.startswith("ebs:gp3 in us-east-1, on demand: 0.08 USD per GiB-month, as of 2026-08-17")


def test_old_prices_are_reported_once(make_resource, book):
    old = cost.price_resources([make_resource()], book)
    (note,) = (note for note in list_price_notes(old, date(2030, 1, 1)) if "days old" in note)
    assert re.match(r"\d+ prices are over 180 days old, the oldest of 20", note)
    assert "in us-east-1" in note
    assert not any("days old" in note for note in list_price_notes(old, date(2026, 1, 1)))
