"""How far a run is: ansible-runner's events folded into one state per host. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from gpufleet.boundary import make_printable
from gpufleet.remote.completion import NOT_SELECTED, RECORDS, ProcessTrace, RunCompletion
from gpufleet.remote.difference import MAX_TASKS, TaskDifference, extract_task_difference
from gpufleet.remote.reported_event import extract_reported_event

Status = Literal["waiting", "running", "ok", "rescued", "failed", "unreachable", "stopped", "not_reached"]
UNDONE: tuple[Status, ...] = ("failed", "unreachable", "rescued", "stopped", "not_reached")
Step = Literal["ok", "changed", "skipped", "failed", "unreachable"]

REASON_LIMIT = 300
# A loop's message, also if Ansible could not include one of its roles or files; `reason` then has the cause.
LOOP_DONE = "All items completed"
# How Ansible names its own types in messages about arguments.
TAGGED_TYPE = re.compile(r"<class '[\w.]*\b_?AnsibleTagged(\w+)'>")


@dataclass
class HostProgress:
    """Where one host is.

    ``rescued`` went on after a caught failure; ``stopped`` was left behind without one; ``not_reached`` is a host that
    no task of a play ran on although the play selects it.
    """

    name: str
    status: Status = "waiting"
    done: int = 0
    changed: int = 0
    task: str = ""
    reason: str = ""
    differences: list[TaskDifference] = field(default_factory=list)


@dataclass(frozen=True)
class ProgressUpdate:
    """One step that a host has just made."""

    host: str
    step: Step
    done: int
    task: str
    reason: str = ""


@dataclass
class RunProgress:
    """The whole run; give it every event in order."""

    hosts: dict[str, HostProgress] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    plays: tuple[str, ...] = ()
    task: str = ""
    play: str = ""
    reports: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    finished: bool = False
    completion: RunCompletion = field(default_factory=RunCompletion)
    process_by_host: dict[str, ProcessTrace] = field(
        default_factory=dict
    )  # where a host's newest result is from

    def __post_init__(self) -> None:
        self.completion.play_count = len(self.plays)

    def apply_runner_event(self, event: dict[str, Any]) -> ProgressUpdate | None:
        """Apply one event; return the step that it stands for, if any."""
        data = event.get("event_data") or {}
        kind = event.get("event", "")
        process = self.completion.apply_runner_event(event)
        if kind == "playbook_on_play_start":
            self.play = data.get("name", "")
        elif kind in ("playbook_on_task_start", "playbook_on_handler_task_start"):
            self.task = format_task_label(data)
        elif kind == "playbook_on_stats" or kind in RECORDS:
            self._finish(process)
        elif kind == "error":
            self.errors.append(strip_colours_and_newlines(event.get("stdout", "")))
        elif kind in STEPS and data.get("host"):
            self.process_by_host[data["host"]] = process
            return self._step(STEPS[kind], data)
        elif kind == "runner_on_start" and data.get("host"):
            self._host(data["host"]).status = "running"
            self._host(data["host"]).task = format_task_label(data)
        return None

    def has_finished_tasks(self, host_name: str, last_action: str) -> bool:
        """Return True if a host has finished the plan's last task without a failure and nothing can follow it."""
        host, process = self.hosts.get(host_name), self.process_by_host.get(host_name)
        is_at_end = bool(host and self.tasks and host.done == len(self.tasks) and host.status == "running")
        return (
            is_at_end
            and process is not None
            and "include" not in last_action
            and process.has_only_last_task_left(host_name)
        )

    def list_finished_hosts(self, event: dict[str, Any]) -> list[str]:
        """Return the hosts that an applied event ends without a failure: those of the statistics of their playbook.

        The last task may be in a play that a host has no part in; a shard's playbook ends before the other shards'.
        """
        if event.get("event") not in {"playbook_on_stats", *RECORDS}:
            return []
        process = self.completion.find_process(event)
        if not process.statistics:
            return []
        return [name for name in process.hosts if name in self.hosts and self.hosts[name].status == "ok"]

    def settle_hosts(self, *, is_complete: bool) -> None:
        """Give the hosts of playbooks that have ended their final status: what is not known to be done is not done.

        If the run is complete, a host that is in none of its playbooks was not reached.
        """
        for process in self.completion.processes:
            self._finish(process, is_final=True)
        for host in self.hosts.values() if is_complete else ():
            if host.status in ("waiting", "running"):
                host.status, host.reason = "not_reached", host.reason or NOT_SELECTED

    def _host(self, name: str) -> HostProgress:
        return self.hosts.setdefault(name, HostProgress(name))

    def _step(self, step: Step, data: dict[str, Any]) -> ProgressUpdate:
        result = data.get("res") or {}
        host = self._host(data["host"])
        host.task = format_task_label(data)
        host.done = self._position(host.task, host.done)
        if report := extract_reported_event(host.name, str(data.get("task_action") or ""), result):
            self.reports.append(report)
        if step == "ok" and result.get("changed"):
            step = "changed"
            host.changed += 1
            difference = extract_task_difference(host.task, result)
            if difference and len(host.differences) < MAX_TASKS:
                host.differences.append(difference)
        if step == "failed" and data.get("ignore_errors"):
            step = "ok"
        if step in ("failed", "unreachable"):
            host.status = step
            host.reason = (
                f"{host.task}: {find_failure_reason(result)}"
                if step == "failed"
                else find_failure_reason(result)
            )
        else:
            host.status = "rescued" if host.reason else "running"
        return ProgressUpdate(host.name, step, host.done, host.task, host.reason)

    def _position(self, task: str, before: int) -> int:
        """Return how far in the plan a task is; a handler is not in it, so it leaves the host where it was."""
        later = (n for n, name in enumerate(self.tasks, start=1) if n > before and name == task)
        return next(later, before) if self.tasks else before + 1

    def _finish(self, process: ProcessTrace, *, is_final: bool = False) -> None:
        """Set each host's status from Ansible's own statistics, and from what it did not finish."""
        stats = process.statistics
        if not stats:
            return
        self.finished = True
        for name in process.hosts:
            host = self._host(name)
            if stats["dark"].get(name):
                host.status = "unreachable"
            elif stats["failures"].get(name):
                host.status = "failed"
            elif stats["rescued"].get(name):
                host.status = "rescued"
            elif (gap := process.find_gap(name)) is None:
                host.status = "ok"
            elif is_final:
                host.status, host.reason = gap


STEPS: dict[str, Step] = {
    "runner_on_ok": "ok",
    "runner_on_skipped": "skipped",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
}


# Ansible waits one millisecond for an ssh that closed its input, then leaves unread what ssh says about the cause.
SEND_FAILURE = re.compile(r"Data could not be sent to remote host .* over SSH\.?: \[Errno 32\]", re.DOTALL)
ENDED_EARLY = "ssh ended before Ansible had sent its data, and Ansible did not read why"


def format_task_label(data: dict[str, Any]) -> str:
    """Return ``role : task`` once, whether or not Ansible put the role before the name."""
    name, role = str(data.get("task") or data.get("name") or ""), data.get("role")
    return f"{role} : {name}" if role and not name.startswith(f"{role} : ") else name


def strip_colours_and_newlines(text: str) -> str:
    """Return the text in one line, without terminal colours."""
    return make_printable(" ".join(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).split()), None)


def summarize_ssh_failure(message: str) -> str:
    """Return ssh's reason in one line; for a changed host key it prints several lines."""
    key = re.search(r"The fingerprint for the (\S+) key sent by the remote host is\s+(\S+?)\.?\s", message)
    known_key = re.search(r"^Offending .* in (\S+?)\r?$", message, re.MULTILINE)
    if key and known_key and "HOST IDENTIFICATION HAS CHANGED" in message:
        problem = f"the host shows {key[2]} ({key[1]}), {known_key[1]} has another key"
        return f"Host key verification failed: {problem}"
    return next(iter(message.splitlines()), "")


def find_failure_reason(task_result: dict[str, Any]) -> str:
    """Return why a task failed, in one bounded line: the message of ssh or the module, without Ansible's prefix."""
    results = task_result.get("results")
    items = [item for item in results if isinstance(item, dict)] if isinstance(results, list) else []
    items = [item for item in items if item.get("failed")]
    if items:  # a loop only says that one or more of its items failed
        return find_failure_reason(items[0])
    not_included = task_result.get("reason") if task_result.get("msg") == LOOP_DONE else None
    message = str(
        not_included
        or task_result.get("msg")
        or task_result.get("stderr")
        or task_result.get("exception")
        or "no reason given"
    )
    for frame in ("Task failed: ", "Module failed: "):
        message = message.removeprefix(frame)
    if SEND_FAILURE.search(message):
        message = ENDED_EARLY
    message = message.rpartition("stdout output: gpufleet: ")[2]
    message = TAGGED_TYPE.sub(lambda match: match[1].lower(), message)
    for frame in ("reached over ssh:", "to the host via ssh:"):
        _, separator, tail = message.partition(frame)
        message = (
            summarize_ssh_failure(tail.strip()) or "the connection ended without a message"
            if separator
            else message
        )
    message = strip_colours_and_newlines(message)
    return message if len(message) <= REASON_LIMIT else message[: REASON_LIMIT - 1] + "…"
