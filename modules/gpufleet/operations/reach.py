"""Asks every node over SSH who it is: reachability with its time, identity, a few facts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gpufleet import paths, remote
from gpufleet.nodes import Identity, Node, Observation, Registry, is_rehearsed
from gpufleet.nodes.model import now


@dataclass
class Reach:
    """Who answered, who did not and why, whose identity contradicts the registry, and what is not well-formed."""

    answered: list[str] = field(default_factory=list)
    silent: dict[str, str] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Login:
    """How to log in; the same places that Ansible and ssh look at."""

    user: str
    key: Path
    known_hosts: Path


def login(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> Login:
    """Return the login: Ansible's key and user where set, a rehearsal's own known hosts, else ssh's defaults."""
    own = (home or paths.state_home()) / "ssh" / "known_hosts"
    usual = Path.home() / ".ssh"
    key = environment.get("ANSIBLE_PRIVATE_KEY_FILE")
    return Login(
        environment.get("ANSIBLE_REMOTE_USER", "root"),
        Path(key) if key else usual / "id_ed25519",
        own if own.is_file() else usual / "known_hosts",
    )


def reach(registry: Registry, who: Login, *, rehearsal: bool = False, timeout: float = 10.0) -> Reach:
    """Ask every live node that has an address; a new one that answers is discovered.

    In a rehearsal only booted hosts are asked: nothing goes out to the addresses of simulated machines.
    """
    live = [node for node in registry.list() if node.state != "retired" and not node.missing]
    asked = {
        node.address: node for node in live if node.address and (is_rehearsed(node.address) or not rehearsal)
    }
    found = Reach()
    for address, answer in _answers(asked, who, timeout):
        node = asked[address]
        if isinstance(answer, remote.Unreachable):
            found.silent[node.name] = f"{answer.reason}: {answer.detail}"
            registry.set_reachable(node.id, False, detail=found.silent[node.name])
        else:
            _met(registry, node, answer.facts, found)
    return found


def _answers(
    asked: Mapping[str, Node], who: Login, timeout: float
) -> Iterator[tuple[str, remote.Reached | remote.Unreachable]]:
    """Ask ours with our login and rented machines with the first user of their image."""
    from gpufleet.cloud.plan import SSH_USER

    for user, rented in ((who.user, False), (SSH_USER, True)):
        some = [address for address, node in asked.items() if bool(node.cloud) is rented]
        if some:
            yield from remote.probe(
                some, user=user, key=who.key, known_hosts=who.known_hosts, timeout=timeout
            ).items()


def _met(registry: Registry, node: Node, facts: remote.Facts, found: Reach) -> None:
    """Note an answer; a board that is not this node's is told and changes nothing."""
    told = {key: value for key, value in asdict(facts).items() if value and key != "serial"}
    identity = Identity(facts.serial or None, node.instance_id, node.rack, node.slot)
    seen = Observation("ssh", node.name, identity, observed=told, observed_at=now())
    with registry.transaction():
        outcome = registry.observe(seen)
        registry.set_reachable(node.id, True)
        if not outcome.conflicts:
            registry.advance(node.id, "discovered", "answered over SSH")
    found.answered.append(node.name)
    found.conflicts += [one.detail for one in outcome.conflicts]
    found.bad += outcome.bad
