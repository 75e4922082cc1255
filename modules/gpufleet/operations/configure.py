"""Runs a play on the fleet and says how every host ended, in Ansible's words and in the registry's.

The run itself tells the registry, through the collection's callback plugin, exactly as a plain ``ansible-runner``
does. Here the registry is only read, unless it missed the run: then the run's artifacts are folded in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from gpufleet import boundary, paths, remote
from gpufleet.boundary import NotJsonError, decode_json
from gpufleet.errors import InputError
from gpufleet.nodes import Node, Registry
from gpufleet.operations import events, ingest, running
from gpufleet.operations.running import Request

BURN_IN_CHOICES = ("auto", "always", "never")
# States that no verdict leaves: a person put the node there, or must say that it was mended.
KEPT_STATES = ("quarantined", "repair")
# States in which somebody's job may run on a node; the plays (gpufleet_busy_states) never load-test those.
ALL_DONE = "every host of that run is done: nothing to do"
BUSY_STATES = ("assigned", "draining")


@dataclass(frozen=True)
class HostEnd:
    """How one host ended: the run's word, and the registry's where it knows the host."""

    name: str
    status: str
    reason: str
    changed: int
    node: Node | None = None
    measured: bool = False
    verdict_reason: str = ""

    @property
    def well(self) -> bool:
        """Say whether nothing about the host needs a person."""
        if self.node is None:
            return self.status == "ok"
        unwell = bool(self.node.holds) or self.node.state in KEPT_STATES
        return self.status == "ok" and not unwell and (self.node.verdict == "healthy" or not self.measured)

    def as_json(self) -> dict[str, Any]:
        """Return the stable shape that ``gpufleet configure --json`` prints."""
        node = self.node
        return {
            "name": self.name,
            "status": self.status,
            "reason": self.reason,
            "changed": self.changed,
            "state": node.state if node else None,
            "verdict": node.verdict if node else None,
            "holds": [hold.kind for hold in node.holds] if node else [],
        }


@dataclass(frozen=True)
class Configured:
    """What came of a request. ``run`` is absent where the pattern means no host today."""

    request: Request
    hosts: tuple[HostEnd, ...] = ()
    run: remote.RunOutcome | None = None
    late: bool = False

    @property
    def exit_code(self) -> int:
        """Say 0 where every host is well, 1 where one is not, 3 where nothing could be done."""
        if self.run is None:
            return 0
        return self.run.exit_code or (0 if all(host.well for host in self.hosts) else 1)

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


def configure(root: Path, request: Request, stream: TextIO) -> Configured:
    """Run the request; progress goes to the stream."""
    plan = remote.plan_run(root, request.play, request.limit)
    if not plan.hosts:
        return Configured(request)
    given = parse_extra_vars(request.extra_vars)
    started = datetime.now(UTC)
    run = running.run(plan, request, given, stream)
    with Registry(paths.database_url(root)) as registry:
        late = not told(registry.list(), run, started)
        if late:
            rehearsal = bool(os.environ.get("GPUFLEET_REHEARSAL"))
            for folder in running.artifacts(run):
                ingest.apply(registry, events.read_artifacts(folder), rehearsal=rehearsal)
        return Configured(request, ends(run, registry), run, late)


def go_on(
    root: Path, name: str, extra_vars: tuple[str, ...], way: remote.Way | None, stream: TextIO
) -> Configured:
    """Go on with a run (empty: the newest) on the hosts that it has not done."""
    folder = paths.state_home(root) / "artifacts"
    record = remote.read_record(folder / (name or remote.last_record(folder)))
    given = parse_extra_vars(extra_vars)
    if missing := [key for key in record.extra_vars if key not in given]:
        remedy = f"give again: {' '.join(f'-e {key}=...' for key in missing)}"
        raise InputError("values of extra variables are not kept", key="--resume", remedy=remedy)
    limit = ",".join(record.left)
    request = Request(record.play, limit, record.burn_in, record.check, extra_vars, way)
    return configure(root, request, stream) if limit else Configured(request)


def parse_extra_vars(pairs: Iterable[str]) -> dict[str, Any]:
    """Read KEY=VALUE pairs and @FILE; a value that reads as JSON is what it says, any other is text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        if pair.startswith("@"):
            found |= read_vars_file(Path(pair[1:]))
            continue
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise InputError(f"{pair!r} is neither KEY=VALUE nor @FILE", key="--extra-var")
        try:
            found[key] = decode_json(value, "--extra-var")
        except NotJsonError:
            found[key] = value
    return found


def read_vars_file(path: Path) -> dict[str, Any]:
    """Return the variables of a YAML or JSON file: one mapping with names as keys."""
    where = boundary.printable(path)
    found = boundary.decode_yaml(boundary.read_text(path), where)
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise InputError(
            "is not a mapping of variables", where=where, remedy="write lines such as key: value"
        )
    return found


def told(nodes: Iterable[Node], run: remote.RunOutcome, started: datetime) -> bool:
    """Say whether the registry heard of this run: every host of it was noted as reachable or not since it began."""
    heard = {node.name: node.reachable_at for node in nodes}
    mentioned = [host.name for host in run.hosts if host.done and host.name in heard]
    return all((moment := heard[name]) is not None and moment >= started for name in mentioned)


def ends(run: remote.RunOutcome, registry: Registry) -> tuple[HostEnd, ...]:
    """Join what the run saw with what the registry concluded."""
    nodes = {node.name: node for node in registry.list()}
    measured = {report.get("node") for report in run.reports if report.get("event") == "burn_in"}
    ended = {host.name for host in run.hosts}
    doubted = [
        node for name, node in nodes.items() if name in ended and node.verdict not in (None, "healthy")
    ]
    why = {node.name: verdict_reason(registry, node) for node in doubted}
    return tuple(
        HostEnd(
            host.name,
            host.status,
            host.reason,
            host.changed,
            nodes.get(host.name),
            measured=host.name in measured,
            verdict_reason=why.get(host.name, ""),
        )
        for host in run.hosts
    )


def verdict_reason(registry: Registry, node: Node) -> str:
    """Return what the registry wrote down with the newest verdict that was like today's."""
    lines = (
        line.reason for line in reversed(registry.history(node.id)) if line.event in ("state", "verdict")
    )
    return next((line for line in lines if line.startswith(f"{node.verdict}: ")), "")


def as_text(configured: Configured) -> str:
    """Say in a few lines how the hosts ended: those that are well folded together, the others with their reason."""
    if configured.run is None:
        return (
            f"{configured.request.limit} has no hosts: nothing to do"
            if configured.request.limit
            else ALL_DONE
        )
    groups: dict[str, list[str]] = {}
    for host in configured.hosts:
        groups.setdefault(boundary.printable(describe(host), None), []).append(boundary.printable(host.name))
    lines = [f"{len(names):>3}  {remote.fold(names)}  {text}" for text, names in groups.items()]
    if configured.run.interrupted:
        lines.append(
            f"interrupted: Ansible was stopped; go on with gpufleet configure --resume {configured.run.id}"
        )
    return "\n".join([*lines, f"run {configured.run.id}: {configured.run.artifacts}"])


def describe(host: HostEnd) -> str:
    """Say in words how one host ended."""
    if host.status == "unreachable":
        return f"unreachable: {remote.with_next_step(host.reason)}"
    if host.node is None:
        return f"{host.status}: {remote.with_next_step(host.reason)}" if host.reason else host.status
    busy = host.node.state in BUSY_STATES and not host.measured
    why = ["not burnt in: a job may run there" if busy else ""]
    why += ["" if host.well else host.verdict_reason, remote.with_next_step(host.reason)]
    why += [f"held by {hold.kind}" for hold in host.node.holds]
    return "; ".join(filter(None, [host.node.state, way_out(host, host.node), *why]))


def way_out(host: HostEnd, node: Node) -> str:
    """Say how a node gets out of a state that its own healthy measurement does not end."""
    if node.state not in KEPT_STATES or not host.measured or node.verdict != "healthy":
        return ""
    move = f"gpufleet nodes state {node.name} burn_in --reason ..."
    return f"measured healthy now: it stays until {move} and gpufleet configure --limit {node.name}"
