"""What a playbook run did to its hosts, one task at a time, whoever tells it.

The callback plugin makes these from live results, ``read_artifacts`` from the events that ansible-runner
leaves behind; both are folded into the registry by ``ingest``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpufleet.errors import InputError
from gpufleet.remote.progress import reason_of
from gpufleet.remote.reporting import reported_event

CONTROLLER_ACTIONS = frozenset(
    {
        "add_host",
        "arguments",
        "assert",
        "debug",
        "driver_plan",
        "fail",
        "group_by",
        "import_role",
        "import_tasks",
        "include_role",
        "include_tasks",
        "include_vars",
        "meta",
        "pause",
        "report",
        "set_fact",
        "set_stats",
        "validate_argument_spec",
    }
)
"""Actions that run without the host: their success does not show that it answers."""


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """One task's end on one host. ``report`` is the task's own word to the registry, where it has one."""

    host: str
    outcome: str  # ok, failed or unreachable
    at: datetime
    started_at: datetime
    action: str = ""
    message: str = ""
    delegated: bool = False
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def touched(self) -> bool:
        """Say whether the host itself answered."""
        controller = self.action.rpartition(".")[2] in CONTROLLER_ACTIONS
        return self.outcome != "unreachable" and not controller and not self.delegated


def task_event(
    host: str,
    outcome: str,
    result: Mapping[str, Any],
    *,
    action: str = "",
    at: datetime | None = None,
    started_at: datetime | None = None,
) -> TaskEvent:
    """Return the event of a task's result, live or recorded."""
    moment = at or datetime.now(UTC)
    return TaskEvent(
        host,
        outcome,
        moment,
        started_at or moment,
        action,
        reason_of(dict(result)) if outcome != "ok" else "",
        delegated="_ansible_delegated_vars" in result,
        report=reported_event(host, action, result),
    )


_OUTCOMES = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
}


def read_artifacts(folder: Path) -> Iterator[TaskEvent]:
    """Give the events of a run's artifacts folder in their order; half-written files are left out."""
    yield from (told for event in _runner_events(_events_folder(folder)) if (told := runner_event(event)))


def runner_event(event: Mapping[str, Any]) -> TaskEvent | None:
    """Return what an event of ansible-runner tells of a host; None where it is no task's result."""
    outcome = _OUTCOMES.get(str(event.get("event")))
    data = event.get("event_data")
    if outcome is None or not isinstance(data, Mapping) or not data.get("host"):
        return None
    result = data.get("res")
    ended = _moment(data.get("end")) or _moment(event.get("created"))
    return task_event(
        str(data["host"]),
        outcome,
        result if isinstance(result, Mapping) else {},
        action=str(data.get("task_action") or ""),
        at=ended,
        started_at=_moment(data.get("start")) or ended,
    )


def _events_folder(folder: Path) -> Path:
    """Accept a run's folder, its ``job_events``, or an artifacts folder that holds exactly one run."""
    runs = [path.parent for path in sorted(folder.glob("*/job_events"))]
    for candidate in (folder / "job_events", *(run / "job_events" for run in runs[:1] if len(runs) == 1)):
        if candidate.is_dir():
            return candidate
    if folder.name == "job_events" and folder.is_dir():
        return folder
    if runs:
        names = ", ".join(run.name for run in runs[:5])
        raise InputError(f"holds {len(runs)} runs", where=str(folder), remedy=f"name one of them: {names}")
    raise InputError(
        "no job_events here", where=str(folder), remedy="give a run's folder, e.g. artifacts/<id>"
    )


def _runner_events(folder: Path) -> Iterator[Mapping[str, Any]]:
    """Read one event after the other, by its counter; runner's ``-partial.json`` files are unfinished."""
    numbered = [
        (int(number), path)
        for path in folder.iterdir()
        if path.suffix == ".json" and (number := path.name.partition("-")[0]).isdigit()
    ]
    for _, path in sorted(numbered):
        try:
            event = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # the run was killed while it wrote this one
        if isinstance(event, Mapping):
            yield event


def _moment(text: Any) -> datetime | None:
    """Return a time; ansible-runner writes UTC, with and without saying so."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
