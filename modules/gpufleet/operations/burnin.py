"""Burn-in as the registry stores it: reports, judging again by today's rules, and what a machine reaches."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from gpufleet import burnin, paths
from gpufleet.boundary import Json, decode_json_lines
from gpufleet.burnin.xid_rule import EventHistory
from gpufleet.errors import CheckFailed, EnvironmentFault, InputError
from gpufleet.nodes import NEW_STATES, BurnInResult, Node, Registry
from gpufleet.operations.event_history import NodeHistories, find_window
from gpufleet.operations.rehearsal_hint import suggest_sync
from gpufleet.operations.site_file import check_site_files, load_site_overrides
from gpufleet.operations.site_thresholds import (
    build_site_agent,
    describe_verdict,
    judge_node_at_site,
    observe_parts_at_site,
)
from gpufleet.scratch import create_scratch_folder

# The numbers that a rehearsal's floors bound, and the share of what this machine reaches that becomes a floor:
# many hosts share it, and emulated ones are slow.
MEASURED = {"memory": "copy_mb_per_s", "storage": "write_mb_per_s"}
FLOOR_SHARE = 0.01
MEASURE_ROUNDS = 3
# How wide the text tables may get.


def is_rehearsal_active() -> bool:
    """Return True if the registry in use is a rehearsal's (`gpufleet rehearse env` sets this)."""
    return bool(os.environ.get("GPUFLEET_REHEARSAL"))


def open_results_registry() -> Registry:
    """Open the registry in use; one that is not there yet holds no results."""
    url = paths.registry_database_url()
    if not Registry.has_registry(url):
        raise EnvironmentFault(
            "the node registry, which stores burn-in results, does not exist yet",
            hint=suggest_sync(),
        )
    return Registry(url)


@dataclass(frozen=True)
class StoredBurninResult:
    """A stored result and the node it is of."""

    node: Node
    result: BurnInResult


def load_newest_burnin_results(
    registry: Registry, node: str | None, attempt: str | None = None
) -> list[StoredBurninResult]:
    """Return each node's newest result, in the registry's order."""
    nodes = [registry.get_node(node)] if node else list(registry.list_nodes())
    return select_newest(nodes, registry.list_burn_in_results(node, attempt))


def select_newest(nodes: Iterable[Node], results: Iterable[BurnInResult]) -> list[StoredBurninResult]:
    """Return the newest result of each node that has one, in the order of the nodes."""
    last = {result.node: result for result in results}
    return [StoredBurninResult(node_row, last[node_row.id]) for node_row in nodes if node_row.id in last]


def load_newest_reports(node: str | None = None, attempt: str | None = None) -> list[Json]:
    """Return the newest reports; InputError where one was asked for by name and there is none."""
    with open_results_registry() as registry:
        reports = [stored.result.report for stored in load_newest_burnin_results(registry, node, attempt)]
    if not reports and (node or attempt):
        subject = f"of attempt {attempt}" if attempt else "yet"
        raise InputError(f"no burn-in result {subject}", where=node or "", remedy="see gpufleet nodes list")
    return reports


def require_healthy_reports(reports: Sequence[Json]) -> None:
    """Raise CheckFailed if a report is not healthy, or if there is none: what was not measured is not healthy."""
    if not reports:
        raise CheckFailed("no node was measured yet")
    unhealthy = [report["node"] for report in reports if report["verdict"] != "healthy"]
    if unhealthy:
        raise CheckFailed(f"not healthy: {', '.join(unhealthy)}")


def rejudge_result(
    stored_result: StoredBurninResult, history: EventHistory | None = None
) -> burnin.BurninReport:
    """Judge a stored result's records by today's thresholds; what was known of its configuration stays."""
    report = stored_result.result.report
    outcomes = {check["name"]: check["outcome"] for check in report["checks"]}
    configured = {"pass": True, "fail": False}.get(outcomes.get("configuration", ""))
    again = judge_node_at_site(
        stored_result.node,
        stored_result.result.records,
        report["profile"],
        rehearsal=is_rehearsal_active(),
        is_configured=configured,
        history=history,
    )
    return replace(again, attempt=report["attempt"])


def rejudge_results(
    node: str | None = None, *, apply_changes: bool = False, since: datetime | None = None
) -> list[Json]:
    """Judge results again, each node's newest or all since a moment; return what differs, and store it where asked."""
    check_site_files()  # a wrong file is refused before anything is read
    with open_results_registry() as registry:
        nodes = [registry.get_node(node)] if node else list(registry.list_nodes())
        results = registry.list_burn_in_results(node, since=since - find_window() if since else None)
        stored_results = (
            select_measurements_since(nodes, results, since) if since else select_newest(nodes, results)
        )
        histories = NodeHistories(results, registry.list_recorded_actions(nodes[0].id if node else None))
        changed = []
        for stored in stored_results:
            result = stored.result
            history = histories.build_history(result.node, result.records, result.digest, result.recorded_at)
            report = rejudge_result(stored, history)
            if report.as_json() != result.report:
                changed.append((stored, report, history))
        return [
            build_verdict_change(stored, report)
            | {"applied": apply_new_verdict(registry, stored, report, apply_changes, history)}
            for stored, report, history in changed
        ]


def select_measurements_since(
    nodes: Iterable[Node], results: Iterable[BurnInResult], since: datetime
) -> list[StoredBurninResult]:
    """Return every measurement recorded since a moment, oldest first, each as it was judged last.

    A stored new judgement repeats the records of the measurement; it counts as one.
    """
    by_id = {row.id: row for row in nodes}
    newest: dict[tuple[str, str], BurnInResult] = {}
    for result in results:
        if result.recorded_at >= since:
            newest[result.node, result.digest] = result
    return [
        StoredBurninResult(by_id[result.node], result) for result in newest.values() if result.node in by_id
    ]


def build_verdict_change(stored: StoredBurninResult, new_report: burnin.BurninReport) -> Json:
    """Return what judging again changes in one report."""
    before = {check["name"]: check for check in stored.result.report["checks"]}
    checks = [
        {"name": check.name, "before": before.get(check.name, {}).get("outcome"), "after": check.outcome}
        | {"reason": check.reason}
        for check in new_report.checks
        if asdict(check) != before.get(check.name)
    ]
    verdicts = {"before": stored.result.verdict, "after": new_report.verdict}
    recorded_at = f"{stored.result.recorded_at:%Y-%m-%dT%H:%M:%SZ}"
    head = {"node": stored.node.name, "attempt": new_report.attempt, "recorded_at": recorded_at}
    return {**head, **verdicts, "checks": checks}


def apply_new_verdict(
    registry: Registry,
    stored: StoredBurninResult,
    new_report: burnin.BurninReport,
    apply_changes: bool,
    history: EventHistory | None = None,
) -> str:
    """Store a new judgement as an attempt of its own, so that the old one stays in the history."""
    if not apply_changes:
        return "no"
    node = stored.node
    if node.state in NEW_STATES and node.state_since > stored.result.recorded_at:
        # After a repair the old record describes another machine: neither a pass nor a fault of today's.
        return f"no, it became {node.state} after this measurement; measure it again (gpufleet burnin run {node.name})"
    # Only burn-in's own quarantine is burn-in's to lift.
    if node.state == "quarantined" and node.state_reason.startswith(f"{stored.result.verdict}:"):
        registry.move_node(node.id, "burn_in", f"judged again: was {stored.result.verdict}")
    attempt = registry.start_attempt(node.id, "rejudge")
    report = replace(new_report, attempt=attempt).as_json()
    reason = describe_verdict(new_report, rehearsal=is_rehearsal_active())
    records = stored.result.records
    seen = observe_parts_at_site(node, records, new_report, rehearsal=is_rehearsal_active(), history=history)
    return registry.record_burn_in_result(node.id, attempt, report, records, reason=reason, seen=seen)


def list_threshold_rows(node_kind: str | None = None) -> list[Json]:
    """Return the thresholds, each with its source and the linter's findings."""
    require_known_kind(node_kind)
    rows = (
        burnin.select_thresholds(node_kind, rehearsal=node_kind == "rehearsal")
        if node_kind
        else burnin.load_thresholds()
    )
    overrides = load_site_overrides()
    added = () if node_kind == "rehearsal" else burnin.list_own_bounds(overrides, node_kind)
    texts = [(override.shipped or override.site, override.site.override) for override in overrides]
    return [
        asdict(row)
        | {"lint": burnin.lint_thresholds((row,))}
        | {"overrides": [text for target, text in texts if target == row]}
        for row in sorted((*rows, *added), key=lambda row: row.applies_to == "rehearsal")
    ]


def explain_check(check_name: str, node_kind: str | None = None) -> Json:
    """Return what is known of a check and its bounds, with the site's overrides."""
    require_known_kind(node_kind)
    return burnin.explain_check(check_name, node_kind, load_site_overrides())


def require_known_kind(node_kind: str | None) -> None:
    """Raise InputError for a kind of node that has no thresholds."""
    kinds = (*burnin.KINDS, "rehearsal")
    if node_kind and node_kind not in kinds:
        raise InputError(
            f"unknown node kind {node_kind!r}", key="--kind", remedy=f"use one of {', '.join(kinds)}"
        )


def require_plausible_thresholds() -> None:
    """Raise CheckFailed if the linter rejects a threshold."""
    faults = burnin.lint_thresholds()
    if faults:
        raise CheckFailed(f"{len(faults)} implausible thresholds; first: {faults[0]}")


def measure_rehearsal_floors() -> list[Json]:
    """Run the agent on this machine at a rehearsal's pace; return its slowest results and the floors they give."""
    with create_scratch_folder("measure") as folder:
        agent = build_site_agent(folder / "agent.pyz")
        runs = [run_measuring_agent(agent, f"measure-{number}") for number in range(MEASURE_ROUNDS)]
    rows = []
    for check, metric in MEASURED.items():
        values = [run[check]["raw"][metric] for run in runs if metric in run.get(check, {}).get("raw", {})]
        if values:
            reached = {"slowest": min(values), "fastest": max(values), "rounds": len(values)}
            floor = round(min(values) * FLOOR_SHARE, 1)
            rows.append({"check": check, "metric": metric, "unit": "MB/s", **reached, "floor": floor})
    return rows


def run_measuring_agent(agent_path: Path, attempt: str) -> dict[str, Json]:
    """Run the agent once; return its check records by name."""
    only = [argument for check in MEASURED for argument in ("--only", check)]
    argv = [sys.executable, str(agent_path), "run", "--attempt", attempt, "--param", "rehearsal=1", *only]
    completed = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=True)
    records = [line for _, line in decode_json_lines(completed.stdout, "the burn-in agent")]
    checks = [entry for entry in records if isinstance(entry, dict) and entry.get("type") == "check"]
    return {record["name"]: record for record in checks}
