"""The differences that Ansible reports with ``--diff``, as a bounded number of printable lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.boundary import make_printable

MAX_LINES = 200  # of one task on one host
MAX_LINE_LENGTH = 200
MAX_TEXT_LENGTH = 200_000  # of one side; comparing longer texts takes too long
MAX_TASKS = 200  # of one host


@dataclass(frozen=True)
class TaskDifference:
    """What one task changed, or would change, on a host."""

    task: str
    lines: tuple[str, ...]


def extract_task_difference(task: str, result: Mapping[str, Any]) -> TaskDifference | None:
    """Return the difference of a task's result, or None; Ansible shows it for changed tasks and items only."""
    items = result.get("results")
    parts = items if isinstance(items, list) else [result]
    lines = []
    for part in parts:
        if isinstance(part, Mapping) and part.get("changed"):
            diff = part.get("diff")
            for entry in diff if isinstance(diff, list) else [diff]:
                if isinstance(entry, Mapping):
                    lines += list(_format_entry(entry))
    if not lines:
        return None
    shown = [make_printable(line.expandtabs(), MAX_LINE_LENGTH) for line in lines[:MAX_LINES]]
    return TaskDifference(
        task, (*shown, *([f"({len(lines) - MAX_LINES} more lines)"] if len(lines) > MAX_LINES else []))
    )


def _format_entry(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of one entry: a text that the module prepared, or what is before and after."""
    if entry.get("prepared"):
        yield from str(entry["prepared"]).splitlines()
    if "before" not in entry or "after" not in entry:
        return
    before, after = _side_text(entry["before"]), _side_text(entry["after"])
    titles = [str(entry.get(f"{side}_header") or "") for side in ("before", "after")]
    if max(len(before), len(after)) > MAX_TEXT_LENGTH:
        yield f"{titles[1]}: too large to compare"
        return
    unified = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"before: {titles[0]}", f"after: {titles[1]}", lineterm=""
    )
    yield from unified


def _side_text(value: Any) -> str:
    """Return one side as text; modules such as ansible.builtin.file report mappings."""
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {value[key]}" for key in sorted(value, key=str))
    return str(value or "")
