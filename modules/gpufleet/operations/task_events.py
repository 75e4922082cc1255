"""What a playbook run did to its hosts, one task at a time: the gate between Ansible's results and the registry.

The callback plugin makes these from live results, ``read_artifact_events`` from the events that ansible-runner
leaves behind; both are folded into the registry by ``ingest``. A result that is not what it must be becomes an event
with a ``problem``: it is recorded as bad, and the others go on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpufleet.boundary import (
    NODE_REPORT,
    RUNNER_EVENT,
    decode_json,
    decode_json_object,
    is_identifier,
    make_printable,
    read_bytes,
)
from gpufleet.errors import InputError
from gpufleet.nodes.revision import hash_event_key
from gpufleet.remote.progress import find_failure_reason
from gpufleet.remote.reported_event import COLLECTION, extract_reported_event

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
        "network_mesh",
        "power",
        "report",
        "set_fact",
        "set_stats",
        "validate_argument_spec",
    }
)
"""Actions that run without the host: their success does not show that it answers."""

_LONGEST_HOST = 255
_LONGEST_TEXT = 20_000  # characters of a message that the reason is taken from


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """The result of one task on one host.

    ``report`` is what the task reports to the registry, where it does; ``key`` identifies the event,
    ``run`` names the Ansible process. ``problem`` is why an event is bad; its other fields do not count then.
    """

    host: str
    outcome: str  # ok, failed or unreachable
    at: datetime
    started_at: datetime
    action: str = ""
    message: str = ""
    delegated: bool = False
    report: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    run: str = ""
    problem: str = ""

    @property
    def has_host_answered(self) -> bool:
        """Return True if the host itself answered."""
        controller = self.action.rpartition(".")[2] in CONTROLLER_ACTIONS
        return self.outcome != "unreachable" and not controller and not self.delegated


def build_task_event(
    host: str,
    outcome: str,
    result: Mapping[str, Any],
    *,
    action: str = "",
    at: datetime | None = None,
    started_at: datetime | None = None,
    key: str = "",
    run: str = "",
) -> TaskEvent:
    """Return the event of a task's result, live or recorded; never raises for what a host made of its result."""
    moment = at or datetime.now(UTC)
    report, problem = _report(host, action, result)
    return TaskEvent(
        host,
        outcome,
        moment,
        started_at or moment,
        action,
        _message(result) if outcome != "ok" else "",
        delegated="_ansible_delegated_vars" in result,
        report=report,
        key=key,
        run=run,
        problem=problem,
    )


def _report(host: str, action: str, result: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return a result's report to the registry as plain bounded values, or why it is bad."""
    raw = result.get("gpufleet")
    if raw is None or not action.startswith(COLLECTION):
        return {}, ""
    try:
        # Live results hold Ansible's own kinds of text: written and read again they are plain, as in artifacts.
        report = decode_json_object(json.dumps(raw, allow_nan=False), "report", NODE_REPORT)
        _check_report(report)
    except InputError as error:
        return {}, make_printable(error)
    except (ValueError, TypeError, RecursionError) as error:
        return {}, make_printable(f"report: is not JSON: {error}")
    return extract_reported_event(host, action, {**result, "gpufleet": report}), ""


_REPORT_TYPES: dict[str, tuple[type, ...]] = {
    "event": (str,),
    "attempt": (str, type(None)),
    "part": (str, type(None)),
    "facts": (dict, type(None)),
    "records": (list, type(None)),
}
_TYPE_NAMES: dict[type, str] = {str: "text", dict: "a mapping", list: "a list"}


def _check_report(report: Mapping[str, Any]) -> None:
    """Raise InputError unless a report's parts have the types that they must have."""
    for name, kinds in _REPORT_TYPES.items():
        if not isinstance(report.get(name, "" if name == "event" else None), kinds):
            expected = _TYPE_NAMES[kinds[0]]
            got = make_printable(repr(report[name]), 60)
            raise InputError(f"must be {expected}, got {got}", where="report", key=name)
    for name, pattern in (("attempt", "attempt"), ("part", "name")):
        value = report.get(name)
        if value and not is_identifier(value, pattern):
            raise InputError(
                f"is not a valid identifier: {make_printable(repr(value), 60)}", where="report", key=name
            )
    if not all(isinstance(record, dict) for record in report.get("records") or ()):
        raise InputError("the list may contain only mappings", where="report", key="records")


def _message(result: Mapping[str, Any]) -> str:
    """Return why a task failed, whatever the host put into its result."""
    texts = {name: _text(result.get(name)) for name in ("msg", "reason", "stderr", "exception")}
    items = result.get("results")
    if isinstance(items, list):
        failed = (item for item in items if isinstance(item, Mapping) and item.get("failed"))
        first = next(failed, {})
        texts = {name: _text(first.get(name)) or text for name, text in texts.items()}
    return make_printable(find_failure_reason({name: text for name, text in texts.items() if text}), None)


def _text(value: Any) -> str:
    """Return a text that is not too long to look at; of anything else only its type."""
    if value is None:
        return ""
    return value[:_LONGEST_TEXT] if isinstance(value, str) else f"({type(value).__name__})"


_OUTCOMES = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
}


class TaskEventReader:
    """Makes events of what ansible-runner records of a run, and of live results: the same keys for the same event.

    A task may end several times on a host (a handler that is notified again), so a key counts its turns.
    """

    def __init__(self) -> None:
        self._turns: Counter[tuple[str, str]] = Counter()

    def next_event_key(self, task_id: str, host: str) -> str:
        """Return the key of the next end of a task on a host."""
        self._turns[task_id, host] += 1
        return hash_event_key(task_id, host, self._turns[task_id, host])

    def parse_runner_event(self, event: Mapping[str, Any], place: str = "") -> TaskEvent | None:
        """Return the event of a task on a host; None if an event of ansible-runner is not a task's result."""
        kind = event.get("event")
        outcome = _OUTCOMES.get(kind) if isinstance(kind, str) else None
        if outcome is None:
            return None
        data = event.get("event_data")
        if not isinstance(data, Mapping):
            return build_bad_task_event(place, "event_data must be a mapping")
        host, result = data.get("host"), data.get("res")
        if not isinstance(host, str) or not 0 < len(host) <= _LONGEST_HOST:
            return build_bad_task_event(place, f"host must be a name, got {make_printable(repr(host), 60)}")
        ended_at = _moment(data.get("end")) or _moment(event.get("created")) or datetime.now(UTC)
        task = data.get("task_uuid")
        named = isinstance(task, str) and 0 < len(task) <= _LONGEST_HOST
        return build_task_event(
            host,
            outcome,
            result if isinstance(result, Mapping) else {},
            action=str(data.get("task_action") or "")[:_LONGEST_HOST],
            at=ended_at,
            started_at=_moment(data.get("start")) or ended_at,
            key=self.next_event_key(str(task), host) if named else hash_event_key(place, host),
            run=extract_run_name(str(task)) if named else str(Path(place).parent),
        )


def extract_run_name(task_id: str) -> str:
    """Return the Ansible process that a task's id names: all but its count."""
    return task_id.rpartition("-")[0] or task_id


def build_bad_task_event(place: str, problem: str, host: str = "") -> TaskEvent:
    """Return an event of which nothing counts but that it was bad."""
    moment = datetime.now(UTC)
    where = f"{make_printable(place)}: " if place else ""
    return TaskEvent(
        host, "ok", moment, moment, "meta", key=hash_event_key(place, host), problem=f"{where}{problem}"
    )


def read_artifact_events(
    folder: Path, on_event: Callable[[Mapping[str, Any] | None], None] = lambda _: None
) -> Iterator[TaskEvent]:
    """Yield the events of a run's artifacts folder in their order, without one that was not completely written.

    ``on_event`` is called with every event of ansible-runner as it is, or with None for one that cannot be read.
    """
    reader = TaskEventReader()
    jobs = find_events_folder(folder)
    for path in _event_files(jobs):
        place = f"{jobs.parent.name}/{path.name}"
        try:
            content = read_bytes(path, RUNNER_EVENT, place)
            event = decode_json(content, place, RUNNER_EVENT)
        except InputError as error:
            on_event(None)
            yield build_bad_task_event(place, make_printable(error.problem))
            continue
        on_event(event if isinstance(event, Mapping) else None)
        if not isinstance(event, Mapping):
            yield build_bad_task_event(place, "is not a mapping")
        elif task_result := reader.parse_runner_event(event, place):
            yield task_result


def find_events_folder(folder: Path) -> Path:
    """Accept a run's folder, its ``job_events``, or an artifacts folder that holds exactly one run."""
    runs = [path.parent for path in sorted(folder.glob("*/job_events"))]
    for candidate in (folder / "job_events", *(run / "job_events" for run in runs[:1] if len(runs) == 1)):
        if candidate.is_dir():
            return candidate
    if folder.name == "job_events" and folder.is_dir():
        return folder
    if runs:
        names = ", ".join(run.name for run in runs[:5])
        remedy = f"give the folder of one of them: {names}"
        raise InputError(f"the folder contains {len(runs)} runs", where=str(folder), remedy=remedy)
    raise InputError(
        "the folder has no job_events", where=str(folder), remedy="give a run's folder, e.g. artifacts/<id>"
    )


def _event_files(folder: Path) -> list[Path]:
    """Return the files of events by their counter; runner's ``-partial.json`` files are unfinished."""
    numbered = [
        (int(number), path)
        for path in folder.iterdir()
        if path.suffix == ".json"
        and not path.name.endswith("-partial.json")
        and (number := path.name.partition("-")[0]).isascii()
        and number.isdigit()
        and len(number) < 20  # noqa: PLR2004 - digits of a 64-bit counter
    ]
    return [path for _, path in sorted(numbered)]


def _moment(text: Any) -> datetime | None:
    """Return a time; ansible-runner writes UTC, with and without saying so."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
