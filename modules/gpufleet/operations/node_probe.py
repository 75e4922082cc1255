"""Probes every node over SSH: reachability with its time, identity, a few facts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from gpufleet import paths, remote
from gpufleet.nodes import Node, NodeObservation, Registry, SourceReport, is_rehearsal_address
from gpufleet.nodes.model import utc_now

SYSTEM_FOLDER = Path("/etc/ssh")
Answer = remote.ReachableHost | remote.UnreachableHost


@dataclass
class NodeProbeReport:
    """Nodes that answered, those that did not and why, conflicting identities, and values that are not well-formed."""

    answered: list[str] = field(default_factory=list)
    unreachable: dict[str, str] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs."""
        return asdict(self)

    def format_lines(self) -> Iterator[str]:
        """Yield how many answered, then a line for each that did not."""
        yield f"{len(self.answered)} nodes answered, {len(self.unreachable)} did not"
        yield from (f"{node} does not answer: {reason}" for node, reason in sorted(self.unreachable.items()))


@dataclass(frozen=True)
class SshLogin:
    """How to log in; the same places that Ansible and ssh look at. The user's own known hosts come first."""

    user: str
    key: Path
    known_hosts: tuple[Path, ...]


def find_ssh_login(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> SshLogin:
    """Return the login: Ansible's key and user where set, a rehearsal's own known hosts, else ssh's defaults."""
    local_known_hosts = (home or paths.state_home()) / "ssh" / "known_hosts"
    ssh_folder = Path.home() / ".ssh"
    usual_files = [
        folder / f"{name}{number}"
        for folder, name in ((ssh_folder, "known_hosts"), (SYSTEM_FOLDER, "ssh_known_hosts"))
        for number in ("", "2")
    ]
    key = environment.get("ANSIBLE_PRIVATE_KEY_FILE")
    return SshLogin(
        environment.get("ANSIBLE_REMOTE_USER", "root"),
        Path(key) if key else ssh_folder / "id_ed25519",
        (local_known_hosts,) if local_known_hosts.is_file() else tuple(usual_files),
    )


def probe_nodes(
    registry: Registry,
    login: SshLogin,
    *,
    rehearsal: bool = False,
    timeout: float = 10.0,
    max_parallel: int = remote.MAX_PARALLEL,
    nodes: Iterable[Node] | None = None,
) -> NodeProbeReport:
    """Ask every live node (of ``nodes``) that has an address; a new one that answers is discovered.

    In a rehearsal only booted hosts are asked: nothing goes out to the addresses of simulated machines.
    """
    asked = registry.list_nodes() if nodes is None else nodes
    live_nodes = [node for node in asked if node.state != "retired" and not node.is_missing]
    by_address = {
        node.address: node
        for node in live_nodes
        if node.address and (is_rehearsal_address(node.address) or not rehearsal)
    }
    return _record_answers(
        registry,
        [
            (by_address[address], answer)
            for address, answer in _probe_addresses(by_address, login, timeout, max_parallel)
        ],
    )


def _probe_addresses(
    by_address: Mapping[str, Node], login: SshLogin, timeout: float, max_parallel: int
) -> Iterator[tuple[str, Answer]]:
    """Probe local nodes with the login's user, rented machines with the first user of their image."""
    from gpufleet.cloud.pool_plan import SSH_USER

    for user, rented in ((login.user, False), (SSH_USER, True)):
        addresses = [address for address, node in by_address.items() if bool(node.cloud) is rented]
        if addresses:
            yield from remote.probe_hosts(
                addresses, user=user, key=login.key, known_hosts=login.known_hosts, timeout=timeout,
                max_parallel=max_parallel,
            ).items()  # fmt: skip


def _record_answers(registry: Registry, answers: Sequence[tuple[Node, Answer]]) -> NodeProbeReport:
    """Record all answers in one transaction; a board that is not this node's is a conflict and changes nothing."""
    report = NodeProbeReport()
    observed_at = utc_now()
    observations = [
        _build_observation(node, answer.facts, observed_at)
        for node, answer in answers
        if isinstance(answer, remote.ReachableHost)
    ]
    with registry.transaction(observed_at):
        outcome = registry.apply_source_report(SourceReport("ssh", observed_at, observations, complete=False))
        disputed = {node_id for conflict in outcome.conflicts for node_id in conflict.nodes}
        for node, answer in answers:
            if isinstance(answer, remote.UnreachableHost):
                report.unreachable[node.name] = f"{answer.reason}: {answer.detail}"
                registry.record_reachability(node.id, False, observed_at, report.unreachable[node.name])
                continue
            registry.record_reachability(node.id, True, observed_at)
            if node.id not in disputed:
                registry.record_facts(node.id, answer.text, observed_at)
                registry.advance_node(node.id, "discovered", "answered over SSH")
            report.answered.append(node.name)
    report.conflicts += [conflict.detail for conflict in outcome.conflicts]
    report.bad += outcome.bad
    return report


def _build_observation(node: Node, facts: remote.ProbedFacts, observed_at: datetime) -> NodeObservation:
    identity = replace(node.place, serial=facts.serial or None)
    return NodeObservation(
        "ssh", node.name, identity, observed=facts.list_reported_values(), observed_at=observed_at
    )
