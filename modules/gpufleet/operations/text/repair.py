"""Parts and repairs as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpufleet import burnin
from gpufleet.boundary import Json
from gpufleet.nodes import ATTENTION_STATES
from gpufleet.operations.repair import PartStatus


def format_part_statuses(statuses: Sequence[PartStatus]) -> list[str]:
    """Return a line for each open fault, and one for a part without."""
    lines = []
    for status in statuses:
        where = status.node.name if status.node else "in no node"
        place = " ".join(filter(None, (where, status.part.place.position if status.part.place else "")))
        head = f"{status.part.kind:<9}{status.part.label:<42}{place:<34}"
        lines += [
            f"{head}{fault.fault:<28}{fault.count:>3}x  next: {fault.step}" for fault in status.faults
        ] or [head.rstrip()]
    return lines or ["no part has an open fault"]


def format_part_details(details: Json) -> list[str]:
    """Return a part's identity, open faults and timeline as lines."""
    head = ("id", "kind", "model", "serial", "uuid", "node", "node_state", "position")
    lines = [f"{key:<12}{details[key]}" for key in head if details[key]]
    for fault in details["faults"]:
        lines.append(f"open        {fault['fault']} ({fault['count']}x): {fault['meaning']}")
        meaning = fault["next_step_meaning"].replace("NODE", details["node"] or "NODE")
        lines.append(f"next step   {fault['next_step']}: {meaning}")
        if fault["rule"]:
            lines.append(f"rule        {fault['rule']}")
        lines.append(f"source      {fault['source']}")
    if details["faults"] and details["node"]:
        lines.append(f"afterwards  {suggest_measurement(details['node'], details['node_state'])}")
    return [*lines, "", *map(format_timeline_row, details["timeline"])]


def suggest_measurement(node: str, state: str) -> str:
    """Return how a repaired node is measured so that it can be used again: no measurement ends a quarantine."""
    if state in ATTENTION_STATES:
        return f"gpufleet nodes state {node} burn_in --reason ..., then gpufleet configure --limit {node}"
    return f"gpufleet burnin run {node}"


def format_timeline_row(row: Json) -> str:
    """Return one row of a timeline as text."""
    if row["event"] in ("placed", "removed"):
        slot = f" ({row['rack']}/{row['slot']})" if row.get("rack") else ""
        return f"{row['at']}  {row['event']:<8}{row['node'] or ''}{slot} {row['name']}".rstrip()
    value = _format_reading(row)
    origin = f"  [{row['attempt']}]" if row["attempt"] else f"  by {row['by']}" if row["by"] else ""
    return f"{row['at']}  {row['event']:<8}{row['name']}  {row['detail']}{value}{origin}"


def _format_reading(row: Json) -> str:
    if row["measured"] is None:
        return ""
    bound = "" if row["threshold"] is None else f", threshold {row['threshold']:g}"
    return f" ({row['measured']:g} {row['unit']}{bound})"


def format_ladders() -> Iterable[str]:
    """Return the table of steps as lines."""
    for ladder in burnin.load_repair_ladders():
        name = f"{ladder.fault} {ladder.vendor_action}".strip()
        yield f"{name:<36}{' -> '.join(ladder.steps):<36}{ladder.meaning}  [{ladder.source}, {ladder.date}]"
