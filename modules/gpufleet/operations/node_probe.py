"""Probes every node over SSH: reachability with its time, identity, a few facts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from gpufleet import paths, remote
from gpufleet.nodes import Node, NodeObservation, Registry, is_rehearsal_address
from gpufleet.nodes.model import utc_now

SYSTEM_FOLDER = Path("/etc/ssh")


@dataclass
class NodeProbeReport:
    """Nodes that answered, those that did not and why, conflicting identities, and values that are not well-formed."""

    answered: list[str] = field(default_factory=list)
    unreachable: dict[str, str] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)


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
    registry: Registry, login: SshLogin, *, rehearsal: bool = False, timeout: float = 10.0
) -> NodeProbeReport:
    """Ask every live node that has an address; a new one that answers is discovered.

    In a rehearsal only booted hosts are asked: nothing goes out to the addresses of simulated machines.
    """
    live_nodes = [node for node in registry.list_nodes() if node.state != "retired" and not node.is_missing]
    by_address = {
        node.address: node
        for node in live_nodes
        if node.address and (is_rehearsal_address(node.address) or not rehearsal)
    }
    report = NodeProbeReport()
    for address, answer in _probe_addresses(by_address, login, timeout):
        node = by_address[address]
        if isinstance(answer, remote.UnreachableHost):
            report.unreachable[node.name] = f"{answer.reason}: {answer.detail}"
            registry.record_reachability(node.id, False, detail=report.unreachable[node.name])
        else:
            _record_reached(registry, node, answer.facts, report)
    return report


def _probe_addresses(
    by_address: Mapping[str, Node], login: SshLogin, timeout: float
) -> Iterator[tuple[str, remote.ReachableHost | remote.UnreachableHost]]:
    """Probe local nodes with the login's user, rented machines with the first user of their image."""
    from gpufleet.cloud.pool_plan import SSH_USER

    for user, rented in ((login.user, False), (SSH_USER, True)):
        addresses = [address for address, node in by_address.items() if bool(node.cloud) is rented]
        if addresses:
            yield from remote.probe_hosts(
                addresses, user=user, key=login.key, known_hosts=login.known_hosts, timeout=timeout
            ).items()


def _record_reached(
    registry: Registry, node: Node, facts: remote.ProbedFacts, report: NodeProbeReport
) -> None:
    """Record an answer; a board that is not this node's is reported as a conflict and changes nothing."""
    observed = {key: value for key, value in asdict(facts).items() if value and key != "serial"}
    identity = replace(node.place, serial=facts.serial or None)
    observation = NodeObservation("ssh", node.name, identity, observed=observed, observed_at=utc_now())
    with registry.transaction():
        outcome = registry.apply_observation(observation)
        registry.record_reachability(node.id, True)
        if not outcome.conflicts:
            registry.advance_node(node.id, "discovered", "answered over SSH")
    report.answered.append(node.name)
    report.conflicts += [conflict.detail for conflict in outcome.conflicts]
    report.bad += outcome.bad
