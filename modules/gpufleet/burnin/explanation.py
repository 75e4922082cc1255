"""Explain a check: what it measures, each bound with its source, what a miss means and what to do next."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from gpufleet.burnin.check_definition import ANY, HARDWARE, KINDS, REHEARSAL, load_checks
from gpufleet.burnin.overrides import ThresholdOverride, list_own_bounds
from gpufleet.burnin.thresholds import ALTERNATIVE, Threshold, load_required_checks, load_thresholds
from gpufleet.errors import InputError


def explain_check(
    check_name: str, node_kind: str | None = None, overrides: tuple[ThresholdOverride, ...] = ()
) -> dict[str, Any]:
    """Return everything that is known of a check; of one kind of node, or of all."""
    checks = load_checks()
    if check_name not in checks:
        similar = get_close_matches(check_name, checks, n=2)
        remedy = f"did you mean {' or '.join(similar)}?" if similar else f"use one of {', '.join(checks)}"
        raise InputError(f"unknown check {check_name!r}", key="--explain", remedy=remedy)
    check = checks[check_name]
    kinds = {node_kind} if node_kind == REHEARSAL else {node_kind, ANY} if node_kind else None
    rows = [
        row
        for row in load_thresholds()
        if row.check == check_name and (kinds is None or row.applies_to in kinds)
    ]
    if node_kind != REHEARSAL:
        rows += [row for row in list_own_bounds(overrides, node_kind) if row.check == check_name]
    return {
        "check": check_name,
        "measures": check.measures,
        "miss": check.miss,
        "next": list(check.next),
        "required_for": list_requiring_nodes(check_name, node_kind),
        "bounds": [describe_bound(row, overrides, node_kind) for row in rows],
    }


def list_requiring_nodes(check_name: str, node_kind: str | None) -> list[str]:
    """Return the kinds, and the hardware, with which a node cannot be healthy without the check."""
    table = load_required_checks()
    kinds = [kind for kind in KINDS if node_kind in {None, kind}]
    required = [kind for kind in kinds if is_listed(check_name, table[kind])]
    others = [kind for kind in kinds if kind not in required]
    titles = [title for key, title in HARDWARE.items() if is_listed(check_name, table[key])]
    return [*required, *(f"{kind} with {title}" for kind in others for title in titles)]


def is_listed(check_name: str, entries: tuple[str, ...]) -> bool:
    """Return whether a list of required checks has a check, also as one of two."""
    return any(check_name in entry.split(ALTERNATIVE) for entry in entries)


def describe_bound(
    row: Threshold, overrides: tuple[ThresholdOverride, ...], node_kind: str | None
) -> dict[str, Any]:
    """Return one bound with its source, its share of the part's peak, and the site's override."""
    touching = [
        override
        for override in overrides
        if row in {override.shipped, override.site if override.shipped is None else None}
        and override.is_for(node_kind)
    ]
    share = row.value / row.peak if row.bound == "floor" and row.value is not None and row.peak else None
    return {
        "applies_to": row.applies_to,
        "metric": row.metric,
        "bound": row.bound_text,
        "on_miss": row.on_miss,
        "if_missing": "not_run" if row.absent == "not_run" else "not judged",
        "meaning": row.meaning,
        "peak": row.peak,
        "peak_source": row.peak_source,
        "share_of_peak": round(share, 3) if share is not None else None,
        "basis": row.basis,
        "source": row.source,
        "date": row.date,
        "overrides": [
            (f"on {override.kind}: " if override.kind else "") + override.site.override
            for override in touching
        ],
    }


def format_explanation(explanation: dict[str, Any]) -> str:
    """Return an explanation as lines for people."""
    required = (
        ", ".join(explanation["required_for"]) or "no node: a fail still counts, a missing record does not"
    )
    lines = [
        f"{explanation['check']}: {explanation['measures']}",
        f"required for: {required}",
        "",
        *(line for bound in explanation["bounds"] for line in format_bound(bound)),
        *([] if explanation["bounds"] else ["no threshold: recorded, not judged"]),
        "",
        f"a miss means: {explanation['miss']}",
        "next:",
        *(f"  {number}. {step}" for number, step in enumerate(explanation["next"], 1)),
    ]
    return "\n".join(lines)


def format_bound(bound: dict[str, Any]) -> list[str]:
    """Return the lines of one bound."""
    share = f" ({bound['share_of_peak']:.0%} of peak {bound['peak']:g}" if bound["share_of_peak"] else ""
    share += f": {bound['peak_source']})" if share and bound["peak_source"] else ")" if share else ""
    return [
        f"{bound['metric']} [{bound['applies_to']}]: {bound['bound']}{share}",
        f"  miss: {bound['on_miss']}: {bound['meaning']}; missing: {bound['if_missing']}",
        f"  {bound['basis']}, {bound['date']}: {bound['source']}",
        *(f"  {override}" for override in bound["overrides"]),
    ]
