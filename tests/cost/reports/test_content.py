"""Test that every report format of every case agrees with the bills: names, order, amounts, signs.

The amounts come from each case's own arithmetic (price times count times hours) and from the bills; the text is
read back by tests/cost/reports/reading.py, which shares no code with the writers.
"""

from __future__ import annotations

import functools
import html
import importlib.util
import json
import xml.etree.ElementTree as ET
from decimal import Decimal
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.cost.inputs.stack_change import change_from_preview

spec = importlib.util.spec_from_file_location("cost_report_reading", Path(__file__).with_name("reading.py"))
reading = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reading)

CASES = sorted((Path(__file__).resolve().parents[2] / "cases" / "cost").glob("*.json"))
TABLE_HEAD = ["OP", "NAME", "WHAT", "PURCHASE", "BEFORE", "AFTER", "CHANGE"]


def total(rows):
    return sum((Decimal(a) * Decimal(b) * Decimal(c) for a, b, c in rows), Decimal(0))


@pytest.fixture(scope="module", params=CASES, ids=lambda path: path.stem)
def case(request):
    return json.loads(request.param.read_text(), parse_float=str)


@pytest.fixture(scope="module")
def cost_diff(case, book):
    change = change_from_preview(json.loads(json.dumps(case["preview"])))
    return cost.diff(change.before, change.after, change=change, book=book)


@pytest.fixture(scope="module")
def render(cost_diff):
    """Return a function that gives the report in a format, written once a case."""
    return functools.cache(lambda form: cost.render_diff(cost_diff, form))


@pytest.fixture(scope="module")
def months(case):
    """Return both months and the greatest and least of the second, from the case's own arithmetic."""
    expect = case["expect"]
    after = expect["after"]
    return {
        "before": total(expect["before"]),
        "after": total(after),
        "low": total(expect.get("low", after)),
        "high": total(expect.get("high", after)),
    }


def assert_first_sentence(text, cost_diff, months):
    """Verify the first sentence: the direction, the amount of the change, and the month where it is known."""
    change = reading.round_to_cents(months["after"]) - reading.round_to_cents(months["before"])
    verbs = [verb for verb in ("raises", "lowers") if verb in text]
    if cost_diff.unknown_changes:
        assert "is not known" in text
        assert verbs == []
    else:
        assert verbs == ([] if change == 0 else ["raises"] if change > 0 else ["lowers"])
    assert change == 0 or reading.format_dollars(abs(change)) in text
    if not cost_diff.partial:
        assert reading.format_dollars(months["after"]) in text
    missing = sum(not gap.is_bounded for gap in cost_diff.after.unpriced_resources)
    assert (f"not counting {missing} item" in text) == bool(missing and not cost_diff.partial)


def test_table_lists_every_changed_resource_with_its_amounts(cost_diff, render, months):
    text = render("table")
    assert_first_sentence(text.splitlines()[0], cost_diff, months)
    changed = [line for line in cost_diff.lines if reading.is_changed(line)]
    rows = reading.grid_rows(text, TABLE_HEAD)
    assert [reading.outer_cells(row) for row in rows] == [reading.line_cells(line) for line in changed]
    unchanged_count = len(cost_diff.lines) - len(changed)
    assert (f"\n{unchanged_count} line{'s' * (unchanged_count != 1)} unchanged" in text) == bool(
        unchanged_count
    )


def test_markdown_sorts_changes_by_amount_and_folds_the_others(cost_diff, render, months):
    text = render("markdown")
    assert_first_sentence(reading.unescape_text(text.splitlines()[0]), cost_diff, months)
    visible_text, _, folded = text.partition("<details>")
    changed = reading.sort_by_amount(line for line in cost_diff.lines if reading.is_changed(line))
    unchanged = reading.sort_by_amount(line for line in cost_diff.lines if not reading.is_changed(line))
    for part, lines in ((visible_text, changed), (folded, unchanged)):
        rows = [reading.outer_cells(row) for row in reading.pipe_rows(part, 7)]
        assert rows == [reading.line_cells(line) for line in lines]


def test_markdown_has_the_totals_before_and_after(cost_diff, render, months):
    certain = cost_diff.before.usd_per_month.is_exact and cost_diff.after.usd_per_month.is_exact
    text = render("markdown")
    before, after = reading.pipe_rows(text, 3 if certain else 4)[:2]
    assert (before[0], before[2]) == ("Before", reading.format_dollars(months["before"]))
    assert (after[0], after[2]) == ("After", reading.format_dollars(months["after"]))
    hour = sum((charge.usd_per_hour.expected for charge in cost_diff.after.charges), Decimal(0))
    assert after[1] == reading.format_dollars(hour)
    if months["low"] != months["high"]:
        assert (
            after[3] == f"{reading.format_dollars(months['low'])} to {reading.format_dollars(months['high'])}"
        )


def test_json_has_the_monthly_totals_and_their_bounds(render, months):
    document = json.loads(render("json"))
    money = {side: document[side] for side in ("before", "after")}
    assert Decimal(str(money["before"]["usd_per_month"])) == reading.round_to_cents(months["before"])
    bounds = {"usd_per_month": "after", "usd_per_month_low": "low", "usd_per_month_high": "high"}
    for key, side in bounds.items():
        assert Decimal(str(money["after"][key])) == reading.round_to_cents(months[side])
    change = reading.round_to_cents(months["after"]) - reading.round_to_cents(months["before"])
    assert Decimal(str(document["change"]["usd_per_month"])) == change


def test_json_has_every_resource_and_every_unpriced_resource(case, cost_diff, render):
    document = json.loads(render("json"))
    lines = [(line["op"], f"{line['name']} {line['component']}") for line in document["resources"]]
    assert lines == [reading.line_cells(line)[:2] for line in cost_diff.lines]
    for side in ("before", "after"):
        hours = sum(line[f"{side}_usd_per_hour"] for line in document["resources"])
        assert hours == pytest.approx(document[side]["usd_per_hour"], abs=1e-4)
    assert not {gap["reason"] for gap in document["unpriced"]} & {gap["reason"] for gap in document["usage"]}
    items = [*document["unpriced"], *document["usage"]]
    reasons = {gap["reason"] for gap in items}
    assert all(any(part in reason for reason in reasons) for part in case["expect"].get("unpriced", []))
    gaps = (*cost_diff.before.unpriced_resources, *cost_diff.after.unpriced_resources)
    listed = {(gap["urn"], gap["component"], gap["reason"]) for gap in items}
    assert listed <= {(gap.urn, gap.component, gap.reason) for gap in gaps}
    assert {gap[:2] for gap in listed} == {(gap.urn, gap.component) for gap in gaps}


def test_html_page_has_the_same_resources_and_totals(cost_diff, render, months):
    page = reading.Page(render("html"))
    assert_first_sentence(page.lead, cost_diff, months)
    changed = reading.sort_by_amount(line for line in cost_diff.lines if reading.is_changed(line))
    unchanged = reading.sort_by_amount(line for line in cost_diff.lines if not reading.is_changed(line))
    for heading, lines in (("What changes", changed), ("Unchanged", unchanged)):
        rows = [reading.outer_cells(row) for row in page.rows(heading)]
        assert rows == [reading.line_cells(line) for line in reading.group_by_pool(lines)]
    cards = {card[0]: card[1:] for card in page.cards}
    change = reading.round_to_cents(months["after"]) - reading.round_to_cents(months["before"])
    assert cards["Change a month"][0] == reading.format_dollars(change, signed=True)
    assert cards["Before"][0] == reading.format_dollars(months["before"])
    assert cards["After"][0] == reading.format_dollars(months["after"])
    wide = months["low"] != months["high"]
    expected = (
        [reading.format_dollars(months["low"]), f"to {reading.format_dollars(months['high'])}"]
        if wide
        else None
    )
    assert cards.get("Range after") == expected


READERS = {"table": str, "markdown": reading.unescape_text, "html": html.unescape}


@pytest.mark.parametrize("form", READERS)
def test_each_unpriced_resource_warning_and_price_is_listed(case, cost_diff, render, form):
    text = READERS[form](render(form))
    for gap in cost_diff.unpriced_resources:
        assert gap.reason in text
    for warning in cost_diff.warnings:
        assert warning.removeprefix("WARNING: ") in text
    prices = [
        line.after or line.before for line in cost_diff.lines if form != "table" or reading.is_changed(line)
    ]
    for charge in prices:
        if charge.price:
            dated = f"as of {charge.price.as_of or 'an unknown date'}, {charge.price.source}"
            assert f"{charge.item} in {charge.region}, {charge.price.purchase.replace('_', ' ')}: " in text
            assert dated in text


def test_junit_has_the_amounts_and_a_case_for_each_unpriced_resource(cost_diff, render, months):
    suite = ET.fromstring(render("junit")).find("testsuite")
    cells = {element.get("name"): element.get("value") for element in suite.iter("property")}
    before, after = reading.round_to_cents(months["before"]), reading.round_to_cents(months["after"])
    assert Decimal(cells["before_usd_per_month"]) == before
    assert Decimal(cells["after_usd_per_month"]) == after
    assert Decimal(cells["change_usd_per_month"]) == after - before
    skipped = [case.find("skipped").get("message") for case in suite if case.find("skipped") is not None]
    assert skipped == [gap.reason for gap in cost_diff.unpriced_resources]
    unknown = int(bool(cost_diff.unknown_changes))
    counts = (suite.get("tests"), suite.get("failures"), suite.get("skipped"))
    assert counts == (str(1 + unknown + len(skipped)), str(unknown), str(len(skipped)))


@pytest.mark.parametrize("form", ["table", "markdown", "json", "html", "junit"])
def test_no_report_shows_a_secret(render, form):
    assert "p5.48xlarge" not in render(form)
