"""Runs a play on the fleet and returns the outcome of every host, as Ansible and the registry report it.

The run itself writes to the registry, through the collection's callback plugin, exactly as a plain ``ansible-runner``
does. Here the registry is only read, unless it missed the run: then the run's artifacts are folded in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from gpufleet import boundary, paths, remote
from gpufleet.boundary import NotJsonError, decode_json
from gpufleet.errors import InputError
from gpufleet.nodes import ATTENTION_STATES, Node, Registry
from gpufleet.operations import ingest, playbook_run, task_events
from gpufleet.operations.event_report import collect_report_summaries
from gpufleet.operations.playbook_run import PlaybookRequest
from gpufleet.operations.run_plan import plan_run

BURN_IN_PLAY = "burn_in"
MEASURING_PLAYS = ("site", BURN_IN_PLAY)


@dataclass(frozen=True)
class HostOutcome:
    """The outcome of one host: as the run reports it, and the registry's node if it knows the host."""

    name: str
    status: str
    reason: str
    changed: int
    node: Node | None = None
    measured: bool = False
    verdict_reason: str = ""
    newer_attempt: str = (
        ""  # of another run that began on the node meanwhile: this run's measurement does not count
    )
    summary: str = ""  # what the play reported for people, such as the kernel that the host would get
    differences: tuple[remote.TaskDifference, ...] = ()
    hold_setters: Mapping[str, str] = field(default_factory=dict)  # who set a hold of the node, by its kind

    @property
    def is_healthy(self) -> bool:
        """True if the run succeeded and nothing about the host needs a person."""
        if self.node is None:
            return self.status == "ok"
        unwell = bool(self.node.holds) or self.node.state in ATTENTION_STATES
        return self.status == "ok" and not unwell and (self.node.verdict == "healthy" or not self.measured)

    def as_json(self) -> dict[str, Any]:
        """Return the stable shape that ``gpufleet configure --json`` prints."""
        node = self.node
        return {
            "name": self.name,
            "status": self.status,
            "reason": self.reason,
            "summary": self.summary,
            "changed": self.changed,
            "state": node.state if node else None,
            "verdict": node.verdict if node else None,
            "holds": [hold.kind for hold in node.holds] if node else [],
            "differences": [asdict(difference) for difference in self.differences],
        }


@dataclass(frozen=True)
class ConfigureResult:
    """The result of a request. ``run`` is None if the pattern matches no host today."""

    request: PlaybookRequest
    hosts: tuple[HostOutcome, ...] = ()
    run: remote.RunOutcome | None = None

    @property
    def exit_code(self) -> int:
        """0 if every host is healthy, 1 if one is not, 3 if nothing could be done."""
        if self.run is None:
            return 0
        return self.run.exit_code or (0 if all(host.is_healthy for host in self.hosts) else 1)

    def as_json(self) -> dict[str, Any]:
        """Return the stable shape that ``gpufleet configure --json`` prints."""
        return {
            "play": self.request.play,
            "limit": self.request.limit,
            "check": self.request.check,
            "run": self.run.id if self.run else None,
            "artifacts": str(self.run.artifacts) if self.run else None,
            "errors": list(self.run.errors) if self.run else [],
            "hosts": [host.as_json() for host in self.hosts],
        }


def configure_hosts(root: Path, request: PlaybookRequest, stream: TextIO) -> ConfigureResult:
    """Run the request; progress goes to the stream."""
    from gpufleet.operations.site_file import check_site_files

    check_site_files()  # a wrong file is refused now, not after an hour of measurements
    plan = plan_run(root, request.play, request.limit, request.selection)
    stream.writelines(f"{warning}\n" for warning in plan.warnings)
    if not plan.hosts:
        return ConfigureResult(request)
    extra_vars = read_extra_vars(request.extra_vars)
    started = datetime.now(UTC)
    run = playbook_run.run_playbook_request(plan, request, extra_vars, stream)
    with Registry(paths.registry_database_url(root)) as registry:
        if not registry_has_results(registry.list_nodes(), run, started):
            rehearsal = bool(os.environ.get("GPUFLEET_REHEARSAL"))
            for folder in playbook_run.list_run_event_folders(run):
                ingest.ingest_events(registry, task_events.read_artifact_events(folder), rehearsal=rehearsal)
        outcomes = collect_host_outcomes(run, registry, with_differences=request.diff)
        return ConfigureResult(request, outcomes, run)


def resume_run(
    root: Path,
    run_name: str,
    extra_vars: tuple[str, ...],
    mode: remote.ShardingOptions | None,
    stream: TextIO,
    *,
    diff: bool = False,
) -> ConfigureResult:
    """Resume a run (empty: the newest) on the hosts that it has not done."""
    folder = paths.state_home(root) / "artifacts"
    record = remote.read_run_record(folder / (run_name or remote.find_newest_run_name(folder)))
    extra_var_values = read_extra_vars(extra_vars)
    if missing := [key for key in record.extra_vars if key not in extra_var_values]:
        remedy = f"give them again: {' '.join(f'-e {key}=...' for key in missing)}"
        raise InputError(
            "gpufleet does not store the values of extra variables", key="--resume", remedy=remedy
        )
    limit = ",".join(record.remaining_hosts)
    request = PlaybookRequest(
        record.play,
        limit,
        record.burn_in,
        record.check,
        extra_vars,
        mode,
        diff,
        record.tags,
        record.skip_tags,
    )
    return configure_hosts(root, request, stream) if limit else ConfigureResult(request)


def read_extra_vars(arguments: Iterable[str]) -> dict[str, Any]:
    """Read KEY=VALUE pairs and @FILE; a value that is valid JSON is decoded, any other is text."""
    variables: dict[str, Any] = {}
    for pair in arguments:
        if pair.startswith("@"):
            variables |= read_vars_file(Path(pair[1:]))
            continue
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise InputError(f"{pair!r} is neither KEY=VALUE nor @FILE", key="--extra-var")
        try:
            variables[key] = decode_json(value, "--extra-var")
        except NotJsonError:
            variables[key] = value
    return variables


def read_vars_file(path: Path) -> dict[str, Any]:
    """Return the variables of a YAML or JSON file: one mapping with names as keys."""
    where = boundary.make_printable(path)
    variables = boundary.decode_yaml(boundary.read_text(path), where)
    if not isinstance(variables, dict) or not all(isinstance(key, str) for key in variables):
        raise InputError(
            "the file is not a mapping of variables", where=where, remedy="write lines such as key: value"
        )
    return variables


def registry_has_results(nodes: Iterable[Node], run: remote.RunOutcome, started_at: datetime) -> bool:
    """Return True if the registry has the reachability of every host of this run since it started."""
    reachable_times = {node.name: node.reachable_at for node in nodes}
    reached_names = [host.name for host in run.hosts if host.done and host.name in reachable_times]
    return all(
        (moment := reachable_times[name]) is not None and moment >= started_at for name in reached_names
    )


def collect_host_outcomes(
    run: remote.RunOutcome, registry: Registry, *, with_differences: bool = False
) -> tuple[HostOutcome, ...]:
    """Return the outcome of each host of the run with its node in the registry."""
    nodes = {node.name: node for node in registry.list_nodes()}
    attempts = {
        event.get("node"): event.get("attempt") for event in run.reports if event.get("event") == "burn_in"
    }
    summaries = collect_report_summaries(run.reports)
    host_names = {host.name for host in run.hosts}
    recorded = registry.list_verdict_reasons()
    verdict_reasons = {
        name: recorded.get(node.id, "")
        for name, node in nodes.items()
        if name in host_names and node.verdict not in (None, "healthy")
    }
    return tuple(
        HostOutcome(
            host.name,
            host.status,
            host.reason,
            host.changed,
            nodes.get(host.name),
            measured=host.name in attempts,
            verdict_reason=verdict_reasons.get(host.name, ""),
            newer_attempt=find_newer_attempt(nodes.get(host.name), attempts.get(host.name)),
            summary=summaries.get(host.name, ""),
            differences=tuple(host.differences) if with_differences else (),
            hold_setters=find_hold_setters(registry, nodes.get(host.name)),
        )
        for host in run.hosts
    )


def find_hold_setters(registry: Registry, node: Node | None) -> dict[str, str]:
    """Return who set each hold of a node that a person set, by the hold's kind."""
    if node is None or all(hold.is_of_burn_in for hold in node.holds):
        return {}
    entries = [entry for entry in registry.list_node_history(node.id) if entry.event == "hold"]
    setters = {entry.reason.partition(":")[0]: entry.actor for entry in entries}
    return {kind: actor for kind, actor in setters.items() if actor}


def find_newer_attempt(node: Node | None, measured_attempt: str | None) -> str:
    """Return the node's current attempt if it is not the one that this run measured; empty otherwise."""
    if node is None or node.attempt is None or not measured_attempt:
        return ""
    return "" if node.attempt == measured_attempt else node.attempt


def suggest_next_run(result: ConfigureResult, names: str) -> str:
    """Return the command that does again what a run did not do on these nodes, also after other runs."""
    if result.request.play == BURN_IN_PLAY:
        return f"gpufleet burnin run {names}"
    return f"gpufleet configure --resume {result.run.id}" if result.run else remote.RESUME


def suggest_return_to_use(host: HostOutcome, node: Node, names: str = "NODE") -> str:
    """Return how a node leaves a state that no measurement of it ends, whatever `configure --resume` does."""
    if node.state not in ATTENTION_STATES:
        return ""
    begin = "measured healthy now; to use it again" if node.verdict == "healthy" else "after its repair"
    begin = begin if host.measured else f"not measured, because it is in {node.state}; after its repair"
    return (
        f"{begin}: gpufleet nodes state {names} burn_in --reason ..., then gpufleet configure --limit {names}"
    )
