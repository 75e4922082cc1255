"""What came of the reports of several sources, as JSON and as lines: the same for a sync and for an import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpufleet.errors import CheckFailed, GpufleetError
from gpufleet.nodes import ReportOutcome

STALE = "stale, changed nothing: another sync read this source later and finished first"


def outcome_as_json(outcome: ReportOutcome) -> dict[str, Any]:
    """Return what came of a source's report for programs."""
    return {
        "source": outcome.source,
        "nodes": outcome.node_count,
        "created": outcome.created,
        "missing": outcome.missing,
        "conflicts": [conflict.detail for conflict in outcome.conflicts],
        "stale": outcome.stale,
        "bad": outcome.bad,
    }


def format_outcome_line(outcome: ReportOutcome) -> str:
    """Return what came of a source's report as one line."""
    if outcome.stale:
        return f"{outcome.source}: {STALE}"
    new_text = f", {len(outcome.created)} new" if outcome.created else ""
    missing_text = f", missing: {', '.join(outcome.missing)}" if outcome.missing else ""
    return f"{outcome.source}: {outcome.node_count} nodes{new_text}{missing_text}"


def list_outcome_warnings(outcomes: Iterable[ReportOutcome]) -> Iterator[str]:
    """Yield the contradictions of all reports, then the values that were left out."""
    reports = list(outcomes)
    yield from (f"conflict: {conflict.detail}" for report in reports for conflict in report.conflicts)
    yield from (f"left out: {line}" for report in reports for line in report.bad)


def list_failures(failures: Mapping[str, GpufleetError]) -> Iterator[str]:
    """Yield a line for each source that did not answer."""
    yield from (f"{source} failed: {error.text_with_hint}" for source, error in failures.items())


def raise_for_failures(failures: Iterable[str], *, has_conflicts: bool, done: str) -> None:
    """Raise CheckFailed if a source failed or contradicts another: the registry is not complete."""
    if sources := ", ".join(failures):
        raise CheckFailed(f"not {done}: {sources}; their last good report remains valid")
    if has_conflicts:
        raise CheckFailed("sources contradict each other; the nodes concerned are on hold")
