"""Reads what a playbook run's event reports about a node: its attempt, its configured parts, why it failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpufleet.nodes import Registry, latest_values_by_key
from gpufleet.operations.task_events import TaskEvent
from gpufleet.remote import append_next_step

BASE = "base"
"""The part of the configuration that every node has."""
FIRST_PARTS = ("roles_before", BASE)
"""The parts of which one is the first of a complete run."""
SUMMARIZED_EVENTS = ("configured", "kernel_upgraded", "network_mesh", "planned")
_LONGEST_SUMMARY = 300


def describe_task_failure(facts: Mapping[str, Any], host: str, play: str = "") -> str:
    """Return which task failed on a host, why, and what helps."""
    reason = ": ".join(str(facts[key]) for key in ("task", "reason") if facts.get(key))
    return (
        append_next_step(reason, f"gpufleet configure{f' --play {play}' if play else ''} --limit {host}")
        or "no reason given"
    )


def merge_configured_parts(
    registry: Registry, node_name: str, event: TaskEvent, part: str, *, is_configured: bool
) -> dict[str, Any]:
    """Return which parts are configured, and whether all are. The first report of a complete run resets the list.

    Without the base part, a node is not configured, whatever else succeeded. A complete run is an
    attempt; its first part is ``base``, or ``roles_before`` on a node that has such roles.
    """
    stored = latest_values_by_key(registry.list_node_values(node_name))
    attempt = get_attempt_id(event)
    is_first = bool(attempt) and part in FIRST_PARTS and attempt != stored.get("observed.configured_attempt")
    before = {} if is_first else dict(mapping_or_empty(stored.get("observed.configured_parts")))
    parts = {**before, part: is_configured}
    merged: dict[str, Any] = {"configured_parts": parts}
    if BASE in parts or not all(parts.values()):
        merged["configured"] = all(parts.values())
    return {**merged, "configured_attempt": attempt} if is_first else merged


def find_burnin_profile(records: list[dict[str, Any]]) -> str:
    """Return the profile of a burn-in's start record; quick if the records name none."""
    started = (record.get("profile") for record in records if record.get("type") == "start")
    return str(next(started, None) or "quick")


def find_last_configured(registry: Registry, node_name: str) -> bool | None:
    """Return the configuration state that the registry has of a node; None if it has none."""
    stored = latest_values_by_key(registry.list_node_values(node_name))
    return bool(stored["observed.configured"]) if "observed.configured" in stored else None


def get_attempt_id(event: TaskEvent) -> str | None:
    """Return the id of the attempt that the event belongs to, if it names one."""
    attempt = event.report.get("attempt")
    return attempt if isinstance(attempt, str) and attempt else None


def collect_report_summaries(reports: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the summaries that the reports of a run give of each node, bounded, in their order."""
    summaries: dict[str, dict[str, None]] = {}
    for report in reports:
        summary = mapping_or_empty(report.get("facts")).get("summary")
        if report.get("event") in SUMMARIZED_EVENTS and isinstance(summary, str) and summary:
            summaries.setdefault(str(report.get("node")), {})[summary[:_LONGEST_SUMMARY]] = None
    return {node: "; ".join(texts) for node, texts in summaries.items()}


def mapping_or_empty(value: Any) -> Mapping[str, Any]:
    """Return a mapping, or an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}
