"""The outcome of a run as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpufleet import boundary, remote
from gpufleet.nodes import BUSY_STATES, Node, NodeHold
from gpufleet.operations.configure import (
    MEASURING_PLAYS,
    ConfigureResult,
    HostOutcome,
    suggest_next_run,
    suggest_return_to_use,
)

ALL_DONE = "every host of that run is done: nothing to do"


def format_configure_result(result: ConfigureResult) -> str:
    """Return the outcomes as lines: hosts with the same outcome and reason share one."""
    if result.run is None:
        return f"{result.request.limit} has no hosts: nothing to do" if result.request.limit else ALL_DONE
    groups: dict[str, list[HostOutcome]] = {}
    for host in result.hosts:
        groups.setdefault(describe_host_outcome(host, result), []).append(host)
    lines = [_format_group(hosts, result) for hosts in groups.values()]
    if result.run.interrupted:
        lines.append(
            f"interrupted: Ansible was stopped; resume with gpufleet configure --resume {result.run.id}"
        )
    differences = format_differences(result.hosts)
    return "\n".join([*differences, *lines, f"run {result.run.id}: {result.run.artifacts}"])


def _format_group(hosts: Sequence[HostOutcome], result: ConfigureResult) -> str:
    names = remote.fold_names_to_ranges([boundary.make_printable(host.name) for host in hosts])
    text = boundary.make_printable(describe_host_outcome(hosts[0], result, names), None)
    return f"{len(hosts):>3}  {names}  {text}"


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


def describe_host_outcome(
    host: HostOutcome, result: ConfigureResult | None = None, names: str = "NODE"
) -> str:
    """Return the outcome of one host as text; its commands are for the nodes of these names."""
    again = suggest_next_run(result, names) if result else remote.RESUME
    if host.status == "unreachable":
        return f"unreachable: {remote.append_next_step(host.reason, again)}"
    if host.node is None:
        label = "" if host.status == "not_reached" else f"{host.status}: "  # its reason begins so
        status = f"{label}{remote.append_next_step(host.reason, again)}" if host.reason else host.status
        return "; ".join(filter(None, [status, host.summary]))
    reasons = [_describe_old_verdict(host, host.node, result)]
    if host.newer_attempt:
        reasons.append(
            f"another run started on this host meanwhile (attempt {host.newer_attempt}) and decides the state"
        )
    return_to_use = suggest_return_to_use(host, host.node, names)
    reasons.append("" if host.is_healthy else host.verdict_reason)
    reasons.append(remote.append_next_step(host.reason, "" if return_to_use else again))
    reasons += [host.summary, *(_describe_hold(host, hold, names) for hold in host.node.holds)]
    if host.measured and host.node.verdict == "incomplete" and not host.newer_attempt:
        reasons.append(f"next: end what kept a check from running, then gpufleet burnin run {names}")
    return "; ".join(filter(None, [host.node.state, *reasons, return_to_use]))


def _describe_old_verdict(host: HostOutcome, node: Node, result: ConfigureResult | None) -> str:
    """Return that a run did not measure a node which it may have measured: its state is of an earlier burn-in."""
    if host.measured:
        return ""
    if node.state in BUSY_STATES:
        return "not burned in: a job may run on it"
    may_measure = result is not None and result.request.play in MEASURING_PLAYS and not result.request.check
    if not may_measure or host.status != "ok" or node.state != "ready" or not node.verdict:
        return ""
    return f"{node.verdict} since {node.state_since:%Y-%m-%d}, not measured in this run"


def _describe_hold(host: HostOutcome, hold: NodeHold, names: str) -> str:
    """Return who holds a node and why, or what releases it where burn-in does."""
    if hold.is_of_burn_in:
        return (
            f"held by burn-in until a healthy run (gpufleet burnin run {names})"
            f" or: gpufleet nodes release {names} {hold.kind} --reason ..."
        )
    setter = host.hold_setters.get(hold.kind)
    return f"held ({hold.kind}){f' by {setter}' if setter else ''}: {hold.reason}"
