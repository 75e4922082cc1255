"""Which hosts make a shard, and which mesh node takes it next."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

ELSEWHERE = "elsewhere"  # hosts that are in no rack and no pool


@dataclass(frozen=True)
class HostShard:
    """Hosts that one ansible-playbook process configures. ``name`` is their rack's or pool's."""

    name: str
    hosts: tuple[str, ...]
    place: str = ""

    @property
    def folder_name(self) -> str:
        """Return a name for the shard's artifacts."""
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", self.name)


def group_hosts_into_shards(
    hosts: Sequence[str], places: Mapping[str, str], max_hosts: int = 0
) -> tuple[HostShard, ...]:
    """Return a shard for each place, in the order of their names; none holds over ``max_hosts`` hosts (0: any number).

    A rack larger than that is cut into equal parts, ``blades-1.1``, ``blades-1.2``.
    """
    by_place: dict[str, list[str]] = {}
    for host in sorted(hosts):
        by_place.setdefault(places.get(host, ELSEWHERE), []).append(host)
    return tuple(
        shard for place in sorted(by_place) for shard in _split_place(place, by_place[place], max_hosts)
    )


def _split_place(place: str, hosts: list[str], max_hosts: int) -> Iterable[HostShard]:
    count = -(-len(hosts) // max_hosts) if max_hosts else 1
    if count == 1:
        return [HostShard(place, tuple(hosts), place)]
    hosts_per_shard = -(-len(hosts) // count)
    parts = [hosts[start : start + hosts_per_shard] for start in range(0, len(hosts), hosts_per_shard)]
    return [HostShard(f"{place}.{number}", tuple(part), place) for number, part in enumerate(parts, start=1)]


class ShardQueue:
    """The shards that wait, the largest first; nodes take them from several threads.

    A shard of a rack that has a node of the same name waits for that node: another may not reach the rack. Any other
    shard goes to the next free node.
    """

    def __init__(self, shards: Sequence[HostShard], nodes: Collection[str]) -> None:
        self._lock = threading.Lock()
        self._nodes = frozenset(nodes)
        self._waiting = sorted(shards, key=lambda shard: (-len(shard.hosts), shard.name))

    def take_shard(self, node: str) -> HostShard | None:
        """Return the next shard for a node and remove it, or None if there is no more."""
        with self._lock:
            shard = next((shard for shard in self._waiting if self._may_take(node, shard)), None)
            if shard:
                self._waiting.remove(shard)
            return shard

    def list_waiting_shards(self) -> tuple[HostShard, ...]:
        """Return the shards that no node has taken."""
        with self._lock:
            return tuple(self._waiting)

    def _may_take(self, node: str, shard: HostShard) -> bool:
        return shard.place == node or shard.place not in self._nodes
