"""Burn-in reports, changed verdicts and thresholds as text."""

from __future__ import annotations

from collections import defaultdict

from gpufleet.boundary import Json
from gpufleet.burnin.report import OUTCOMES

SOURCE_WIDTH = 60
WORST_FIRST = ("faulty", "incomplete", "degraded", "healthy")


def format_burnin_reports(reports: list[Json]) -> str:
    """Return reports as lines for people: the worst node first, and of each the worst check first."""
    ordered = sorted(reports, key=lambda report: WORST_FIRST.index(report["verdict"]))
    return (
        "\n".join(line for report in ordered for line in format_burnin_report_lines(report))
        or "no burn-in results yet"
    )


def format_burnin_report_lines(report: Json) -> list[str]:
    """Return the verdict, a line per measured check, and one line for all checks that did not run for one reason."""
    head = f"{report['node']}  {report['verdict']}  {report['profile']}  attempt {report['attempt']}"
    checks = sorted(report["checks"], key=lambda check: OUTCOMES.index(check["outcome"]))
    lines, names_by_reason = [], defaultdict(list)
    for check in checks:
        if check["outcome"] == "not_run":
            names_by_reason[check["reason"]].append(check["name"])
        else:
            lines.append(format_check_line(check))
    lines += [f"{'not_run':<8} {', '.join(names)}: {reason}" for reason, names in names_by_reason.items()]
    return [head, *(f"  {line}" for line in lines)]


def format_check_line(check: Json) -> str:
    measured = check["measured"]
    number = f"{measured:g}" if isinstance(measured, int | float) else measured
    value = f"{number} {check['unit']}" if measured is not None else ""
    return f"{check['outcome']:<8} {check['name']:<16} {value:<16} {check['reason']}".rstrip()


def format_verdict_changes(changes: list[Json]) -> str:
    """Return what judging again changes, as lines."""
    lines = []
    for change in changes:
        lines.append(
            f"{change['node']}  {change['recorded_at']}  {change['before']} -> {change['after']}"
            f"  applied: {change['applied']}"
        )
        moved = [check for check in change["checks"] if check["before"] != check["after"]]
        lines += [f"  {c['name']}: {c['before']} -> {c['after']}  {c['reason']}".rstrip() for c in moved]
        if same := len(change["checks"]) - len(moved):
            lines.append(f"  same outcome by another threshold or reason: {same}")
    return "\n".join(lines) or "today's thresholds change nothing"


def format_thresholds(rows: list[Json]) -> str:
    """Return thresholds as lines, each with what it bounds and where it comes from."""
    return "\n".join(line for row in rows for line in format_threshold_lines(row))


def format_threshold_lines(row: Json) -> list[str]:
    """Return one threshold's line, and the linter's complaints under it."""
    value = "" if row["value"] is None else f"{row['value']:g} {row['unit']}"
    source = row["source"] if len(row["source"]) <= SOURCE_WIDTH else f"{row['source'][:SOURCE_WIDTH]}…"
    metric_name = f"{row['check']}.{row['metric']}"
    bound = f"{row['bound']:<8} {value:<18} {row['on_miss']:<5}"
    line = f"{row['applies_to']:<14} {metric_name:<46} {bound} {row['basis']:<9} {row['date']}  {source}"
    return [
        line,
        *(f"  implausible: {fault}" for fault in row["lint"]),
        *(f"  {override}" for override in row["overrides"]),
    ]


def format_rehearsal_floors(rows: list[Json]) -> str:
    """Return what this machine reaches, and the floors that follow."""
    return "\n".join(
        f"{row['check']}.{row['metric']}: {row['slowest']:g} to {row['fastest']:g} {row['unit']}"
        f" in {row['rounds']} rounds; rehearsal floor {row['floor']:g} {row['unit']}"
        for row in rows
    )
