"""The outcome of a run as text."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet import boundary, remote
from gpufleet.nodes import BUSY_STATES
from gpufleet.operations.configure import ConfigureResult, HostOutcome, suggest_return_to_use

ALL_DONE = "every host of that run is done: nothing to do"


def format_configure_result(result: ConfigureResult) -> str:
    """Return the outcomes as lines: hosts with the same outcome and reason share one."""
    if result.run is None:
        return f"{result.request.limit} has no hosts: nothing to do" if result.request.limit else ALL_DONE
    groups: dict[str, list[str]] = {}
    for host in result.hosts:
        groups.setdefault(boundary.make_printable(describe_host_outcome(host), None), []).append(
            boundary.make_printable(host.name)
        )
    lines = [
        f"{len(names):>3}  {remote.fold_names_to_ranges(names)}  {text}" for text, names in groups.items()
    ]
    if result.run.interrupted:
        lines.append(
            f"interrupted: Ansible was stopped; resume with gpufleet configure --resume {result.run.id}"
        )
    differences = format_differences(result.hosts)
    return "\n".join([*differences, *lines, f"run {result.run.id}: {result.run.artifacts}"])


def format_differences(hosts: Iterable[HostOutcome]) -> list[str]:
    """Return the differences task by task; hosts with the same difference share one block."""
    groups: dict[remote.TaskDifference, list[str]] = {}
    for host in hosts:
        for difference in host.differences:
            groups.setdefault(difference, []).append(boundary.make_printable(host.name))
    lines = []
    for difference, names in groups.items():
        task = boundary.make_printable(difference.task, None)
        lines += [f"{remote.fold_names_to_ranges(names)}  {task}"]
        lines += [f"    {line}" for line in difference.lines] + [""]
    return lines


def describe_host_outcome(host: HostOutcome) -> str:
    """Return the outcome of one host as text."""
    if host.status == "unreachable":
        return f"unreachable: {remote.append_next_step(host.reason)}"
    if host.node is None:
        label = "" if host.status == "not_reached" else f"{host.status}: "  # its reason begins so
        status = f"{label}{remote.append_next_step(host.reason)}" if host.reason else host.status
        return "; ".join(filter(None, [status, host.summary]))
    busy = host.node.state in BUSY_STATES and not host.measured
    reasons = ["not burned in: a job may run on it" if busy else ""]
    if host.newer_attempt:
        reasons.append(
            f"another run started on this host meanwhile (attempt {host.newer_attempt}) and decides the state"
        )
    return_to_use = suggest_return_to_use(host, host.node)
    reasons.append("" if host.is_healthy else host.verdict_reason)
    reasons.append(remote.append_next_step(host.reason, is_resumed=not return_to_use))
    reasons += [host.summary, *(f"held by {hold.kind}" for hold in host.node.holds)]
    return "; ".join(filter(None, [host.node.state, *reasons, return_to_use]))
