"""The fleet report: money, states and burn-in on one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpufleet.boundary import Json, make_block_printable, make_values_printable
from gpufleet.console import plot
from gpufleet.nodes import ATTENTION_STATES, USABLE_STATES
from gpufleet.page import render_page

TONES = ("good", "warn", "bad", "idle")
"""The CSS classes of a node's cell in a rack."""


@dataclass(frozen=True)
class FleetReportData:
    """What a report is made of: documents as the command line prints them.

    ``nodes`` is ``nodes list --json``, ``reports`` are ``burnin report --json`` documents, ``change`` is
    ``cost diff --format json`` and may be absent.
    """

    stack: str
    written_at: str
    nodes: list[Json]
    reports: list[Json] = field(default_factory=list)
    change: Json | None = None
    rehearsal: bool = False


def format_report_headline(data: FleetReportData) -> str:
    """Return one sentence with the number of nodes in each status."""
    states = Counter(describe_node_status(node) for node in data.nodes)
    parts = [
        f"{count} {name}" for name, count in sorted(states.items(), key=lambda item: (-item[1], item[0]))
    ]
    return f"{len(data.nodes)} nodes: " + ", ".join(parts)


def describe_node_status(node: Json) -> str:
    """Return a node's state for a reader, with reachability and holds folded in."""
    if node.get("reachable") is False and node["state"] != "retired":
        return "unreachable"
    if node["state"] in USABLE_STATES and node.get("holds"):
        return f"{node['state']} (held)"
    return str(node["state"])


def list_nodes_needing_attention(data: FleetReportData) -> list[Json]:
    """Return the nodes that a person must look at, each with its reasons."""
    by_node = {report["node"]: report for report in data.reports}
    rows = []
    for node in data.nodes:
        report = by_node.get(node["name"])
        reasons = list_attention_reasons(node, report)
        if reasons:
            verdict = report["verdict"] if report else ""
            rows.append(
                {"node": node, "status": describe_node_status(node), "verdict": verdict, "reasons": reasons}
            )
    return rows


def list_attention_reasons(node: Json, burn_in_report: Json | None) -> list[str]:
    """Return why a node needs attention; empty if it does not."""
    reasons = []
    if describe_node_status(node) == "unreachable":
        reasons.append(node.get("reachable_detail") or "does not answer over SSH")
    failed_checks = [
        check for check in (burn_in_report or {}).get("checks", []) if check["outcome"] in ("fail", "warn")
    ]
    reasons += [f"{check['name']} {check['outcome']}: {check['reason']}" for check in failed_checks]
    reasons += [
        format_node_hold(hold, has_failed_checks=bool(failed_checks)) for hold in node.get("holds", [])
    ]
    if node["state"] in ATTENTION_STATES and not reasons:
        reasons.append(node["state"])
    return reasons


def format_node_hold(hold: Json, *, has_failed_checks: bool) -> str:
    """Return a hold as text; the reason of a burn-in is left out if its checks are listed already."""
    if has_failed_checks and hold["reason"].startswith("burn-in"):
        return f"held ({hold['kind']}) until a person has looked at it"
    return f"held ({hold['kind']}): {hold['reason']}"


def build_rack_grids(data: FleetReportData) -> list[Json]:
    """Return each rack with its cells by slot."""
    racks: dict[str, list[Json]] = {}
    for node in data.nodes:
        if node.get("rack"):
            racks.setdefault(node["rack"], []).append(node)
    return [
        {
            "name": name,
            "cells": [
                build_rack_cell(node) for node in sorted(nodes, key=lambda node: node.get("slot") or 0)
            ],
        }
        for name, nodes in sorted(racks.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def build_rack_cell(node: Json) -> Json:
    return {
        "name": node["name"],
        "slot": node.get("slot"),
        "status": describe_node_status(node),
        "tone": choose_rack_cell_css_class(node),
    }


def choose_rack_cell_css_class(node: Json) -> str:
    """Return the CSS class of a node's cell, one of ``TONES``."""
    if describe_node_status(node) == "unreachable" or node["state"] in ATTENTION_STATES:
        return "bad"
    if node["state"] not in USABLE_STATES:
        return "idle"
    return "warn" if node.get("holds") else "good"


def list_priced_resources(cost_change: Json | None) -> list[Json]:
    """Return the priced lines of a change, dearest first, free ones left out."""
    if cost_change is None:
        return []
    paid = [
        line for line in cost_change["resources"] if line["before_usd_per_hour"] or line["after_usd_per_hour"]
    ]
    return sorted(paid, key=lambda line: -(line["after_usd_per_hour"] or line["before_usd_per_hour"] or 0))


def group_rows(rows: Iterable[Json], *keys: str) -> dict[str, list[Json]]:
    """Return rows by the first of these keys that has a value; the groups come in the order of their first rows."""
    groups: dict[str, list[Json]] = {}
    for row in rows:
        groups.setdefault(next(filter(None, map(row.get, keys)), ""), []).append(row)
    return groups


def render_report_page(data: FleetReportData) -> str:
    """Return the report as one self-contained HTML page."""
    data = make_values_printable(
        data, make_block_printable
    )  # markup is escaped below; this is for what hides or turns text
    return render_page(
        "console/templates/report.html.j2",
        title=f"gpufleet: {data.stack}",
        usd=lambda amount: "unknown" if amount is None else f"{amount:,.3f}",
        whole_usd=lambda amount: "unknown" if amount is None else f"{amount:,.0f}",
        data=data,
        headline=format_report_headline(data),
        concerns=list_nodes_needing_attention(data),
        racks=build_rack_grids(data),
        pools=group_rows(list_priced_resources(data.change), "pool", "name"),
        groups=group_rows(data.nodes, "pool", "rack", "cloud", "kind"),
        plots=plot.draw_plots(data.nodes, data.reports, data.change),
        status=describe_node_status,
    )
