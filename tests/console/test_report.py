"""Test the HTML report: node states, reasons, costs, and no external resource."""

from __future__ import annotations

import re

import pytest

from gpufleet.console import FleetReportData, format_report_headline, plot, render_report_page
from gpufleet.console.report import (
    build_rack_grids,
    describe_node_status,
    list_attention_reasons,
    list_nodes_needing_attention,
    list_priced_resources,
)
from gpufleet.page import BarGroup


def node(name, state="ready", **more):
    base = {
        "id": name, "name": name, "kind": "compute_blade", "cloud": None, "region": None, "pool": None,
        "rack": "blades-1", "slot": 1, "template": None, "address": None, "reachable": True, "state": state,
        "holds": [], "accelerators": [], "usd_per_hour": 0.01, "sources": [],
    }  # fmt: skip
    return base | more


def check(name, outcome="pass", measured=10.0, **more):
    base = {"name": name, "outcome": outcome, "measured": measured, "unit": "MB/s", "threshold": 5.0}
    return base | {"threshold_source": "here", "reason": "measured below 5"} | more


def report(name, verdict="healthy", checks=()):
    return {"attempt": "a1", "node": name, "profile": "quick", "verdict": verdict, "checks": list(checks)}


def line(name, before, after):
    return {
        "urn": f"urn::{name}", "type": "aws:ec2/instance:Instance", "name": name, "op": "update",
        "quantity": 1,
        "hours_per_month": 730, "purchase": "on_demand", "before_usd_per_hour": before,
        "after_usd_per_hour": after,
        "after_usd_per_hour_low": after, "after_usd_per_hour_high": after,
        "price": {"usd_per_hour": after, "as_of": "2026-07-06", "source": "a source"},
    }  # fmt: skip


def money(month):
    return {
        "usd_per_hour": month / 730,
        "usd_per_month": month,
        "usd_per_month_low": month,
        "usd_per_month_high": month,
    }


CHANGE = {
    "stack": "production", "currency": "USD", "before": money(730), "after": money(1460),
    "change": {"usd_per_month": 730.0, "percent": 100.0},
    "resources": [line("cheap", 0.0, 0.5), line("dear", 1.0, 2.0), line("free", 0.0, 0.0)],
    "unpriced": [{"urn": "urn:x::thing", "type": "aws:x:Y", "reason": "unknown type"}],
    "policy": {"passed": True, "violations": []},
}  # fmt: skip

FLEET = FleetReportData(
    stack="production",
    written_at="2026-11-21 12:00 UTC",
    nodes=[
        node("blade01"),
        node("blade02", holds=[{"kind": "operator", "reason": "burn-in: degraded"}], slot=2),
        node("blade03", "quarantined", slot=3),
        node("blade04", "expected", slot=4, reachable=False),
    ],
    reports=[
        report("blade01", checks=[check("memory")]),
        report(
            "blade02",
            "degraded",
            [check("memory"), check("pi_throttled", "warn", None, reason="under-voltage now")],
        ),
        report("blade03", "faulty", [check("storage", "fail", 0.0, reason="disk is full")]),
    ],
    change=CHANGE,
)


def test_headline_counts_each_status():
    assert format_report_headline(FLEET) == "4 nodes: 1 quarantined, 1 ready, 1 ready (held), 1 unreachable"


def test_every_node_that_needs_attention_is_listed_with_its_reason():
    reasons = {row["node"]["name"]: " ".join(row["reasons"]) for row in list_nodes_needing_attention(FLEET)}
    assert set(reasons) == {"blade02", "blade03", "blade04"}
    assert (
        reasons["blade02"]
        == "pi_throttled warn: under-voltage now held (operator) until a person has looked at it"
    )
    assert "disk is full" in reasons["blade03"]
    assert "does not answer" in reasons["blade04"]


def test_hold_without_failed_checks_shows_its_reason():
    node_on_hold = node("blade01", holds=[{"kind": "security", "reason": "key leaked"}])
    (row,) = list_nodes_needing_attention(FleetReportData("x", "now", [node_on_hold]))
    assert row["reasons"] == ["held (security): key leaked"]


def test_racks_are_sorted_by_slot():
    (grid,) = build_rack_grids(FLEET)
    assert [cell["slot"] for cell in grid["cells"]] == [1, 2, 3, 4]


def test_cost_lines_are_sorted_by_cost_and_free_ones_left_out():
    assert [entry["name"] for entry in list_priced_resources(CHANGE)] == ["dear", "cheap"]


def test_page_loads_no_external_resource():
    page = render_report_page(FLEET)
    assert page.count('<div class="bars">') == 1
    assert page.count("<svg") == 1  # a strip for the check that most measured
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"', page.replace("xlink:", ""))
    assert "undated" not in page
    assert "1,460" in page


def test_names_cannot_inject_markup():
    page = render_report_page(FleetReportData(stack="<script>x</script>", written_at="", nodes=[]))
    assert "<script>x" not in page


@pytest.mark.parametrize("part", ["Nodes to look at", "Money", "Burn-in, measured", "All nodes", "blade03"])
def test_page_has_all_sections(part):
    assert part in render_report_page(FLEET)


def test_page_renders_without_cost_and_burn_in_data():
    page = render_report_page(FleetReportData(stack="dev", written_at="now", nodes=[node("blade01")]))
    assert "None: nothing failed" in page


def test_page_matches_the_golden_file(repo_root, golden):
    """Drawings are left out: their own tests look at what they draw from."""
    page = re.sub(r"<svg.*?</svg>", "<svg/>", render_report_page(FLEET), flags=re.DOTALL)
    golden(
        repo_root / "tests/cases/console/report.html", "\n".join(line.rstrip() for line in page.splitlines())
    )


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "ready"),
        ({"reachable": False}, "unreachable"),
        ({"reachable": None}, "ready"),
        ({"reachable": False, "state": "retired"}, "retired"),
        ({"holds": [{"kind": "operator", "reason": "x"}]}, "ready (held)"),
        ({"holds": [{"kind": "operator", "reason": "x"}], "state": "repair"}, "repair"),
    ],
)
def test_status_of_a_node_follows_its_state_and_holds(changed, expected):
    assert describe_node_status(node("a", **changed)) == expected


@pytest.mark.parametrize(
    ("changed", "burn_in_report", "reasons"),
    [
        ({}, None, []),
        ({}, report("a", checks=[check("memory", "pass")]), []),
        ({"state": "repair"}, None, ["repair"]),
        ({"state": "quarantined"}, None, ["quarantined"]),
        ({"state": "quarantined"}, report("a", checks=[check("m", "fail")]), ["m fail: measured below 5"]),
        ({"reachable": False, "reachable_detail": "timed out"}, None, ["timed out"]),
        ({"reachable": False}, None, ["does not answer over SSH"]),
        ({"holds": [{"kind": "k", "reason": "burn-in: bad"}]}, None, ["held (k): burn-in: bad"]),
        ({"holds": [{"kind": "k", "reason": "burn-in: bad"}]}, report("a", checks=[check("m", "warn")]),
         ["m warn: measured below 5", "held (k) until a person has looked at it"]),
        ({"holds": [{"kind": "k", "reason": "leak"}]}, report("a", checks=[check("m", "warn")]),
         ["m warn: measured below 5", "held (k): leak"]),
    ],
)  # fmt: skip
def test_reasons_why_a_node_needs_attention_are_listed(changed, burn_in_report, reasons):
    assert list_attention_reasons(node("a", **changed), burn_in_report) == reasons


def test_largest_rack_comes_first_and_a_held_blade_has_its_own_colour():
    nodes = [
        node("z1", rack="z"), node("z2", rack="z", slot=None), node("b1", rack="b"), node("a1", rack="a"),
        node("free", rack=None), node("held", rack="z", slot=3, holds=[{"kind": "k", "reason": "r"}]),
    ]  # fmt: skip
    grids = build_rack_grids(FleetReportData("x", "now", nodes))
    assert [grid["name"] for grid in grids] == ["z", "a", "b"]
    assert [cell["name"] for cell in grids[0]["cells"]] == ["z2", "z1", "held"]
    assert grids[0]["cells"][2] == {
        "name": "held",
        "slot": 3,
        "status": "ready (held)",
        "tone": "warn",
    }


def test_states_are_sorted_by_count_and_name():
    nodes = [node("a", "repair"), node("b", "expected"), node("c", "expected"), node("d", "burn_in")]
    assert (
        format_report_headline(FleetReportData("x", "now", nodes))
        == "4 nodes: 2 expected, 1 burn_in, 1 repair"
    )


def test_removed_resource_is_ranked_by_its_former_cost():
    change = {**CHANGE, "resources": [line("a", 0.0, 1.0), line("gone", 3.0, 0.0), line("b", 9.0, 2.0)]}
    assert [entry["name"] for entry in list_priced_resources(change)] == ["gone", "b", "a"]
    assert list_priced_resources(None) == []


def test_cost_bars_omit_amounts_below_half_a_percent_of_the_largest():
    resources = [
        line("dear", 1.0, 2.0),
        line("least", 0.0, 0.01),
        line("less", 0.0, 0.0099),
        line("free", 0.0, 0.0),
    ]
    assert plot.list_costs_by_resource({**CHANGE, "resources": resources}) == [
        BarGroup("dear Instance", {"before": 730.0, "after": 1460.0}),
        BarGroup("least Instance", {"before": 0.0, "after": pytest.approx(7.3)}),
    ]
    assert plot.list_costs_by_resource({**CHANGE, "resources": []}) == []


def test_components_of_a_resource_share_its_bars():
    (group,) = plot.list_costs_by_resource(
        {**CHANGE, "resources": [line("a", 1.0, 2.0), line("a", 0.0, 1.0)]}
    )
    assert group.values == {"before": 730.0, "after": 2190.0}


def test_measurements_of_at_least_half_of_the_nodes_are_drawn_with_their_limits():
    reports = [
        report("b", checks=[check("memory", measured=9.0), check("rare"), check("flag", measured=True)]),
        report("a", checks=[check("memory", "fail", 4, threshold=None), check("text", measured="x")]),
        report(
            "c", checks=[check("bare", unit=None, threshold=None), check("bare2", unit="", threshold="5")]
        ),
    ]
    drawn = plot.plot_measurements_by_node(reports, ["c", "b", "a"])
    assert re.findall("<figcaption>(.*?)</figcaption>", drawn) == ["memory: 4 to 9 MB/s, threshold 5"]
    assert re.findall("<title>(.*?)</title>", drawn) == ["b: 9", "a: 4"]
    assert re.findall("<text.*?>(.*?)</text>", drawn) == ["a"]  # it failed
    assert drawn.count('class="limit"') == 1


def test_strip_without_limit_or_unit_has_neither():
    drawn = plot.plot_measurements_by_node(
        [report("c", checks=[check("bare", unit=None, threshold=None)])], ["c"]
    )
    assert "<figcaption>bare: 10</figcaption>" in drawn
    assert "limit" not in drawn
    looks = [plot.OUTCOME_COLOURS, plot.OUTCOME_SHAPES]
    assert all(
        list(look) == ["pass", "warn", "fail", "not_run"] and len({*look.values()}) == 4 for look in looks
    )


def test_plots_without_data_are_omitted():
    measured = [report("a", checks=[check("memory")])]
    assert set(plot.draw_plots([node("a")], measured, CHANGE)) == {"money", "measured"}
    assert set(plot.draw_plots([node("a")], measured, None)) == {"measured"}
    assert set(plot.draw_plots([node("a")], [report("a", checks=[check("m", measured=None)])], None)) == set()
