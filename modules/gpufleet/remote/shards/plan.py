"""Which hosts make a shard, and which worker runs it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ELSEWHERE = "elsewhere"  # hosts that are in no rack and no pool


@dataclass(frozen=True)
class HostShard:
    """Hosts that one ansible-playbook process configures. ``name`` is their rack's or pool's."""

    name: str
    hosts: tuple[str, ...]

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
        return [HostShard(place, tuple(hosts))]
    hosts_per_shard = -(-len(hosts) // count)
    parts = [hosts[start : start + hosts_per_shard] for start in range(0, len(hosts), hosts_per_shard)]
    return [HostShard(f"{place}.{number}", tuple(part)) for number, part in enumerate(parts, start=1)]


def assign_shards_to_workers(
    shards: Sequence[HostShard], workers: Sequence[str]
) -> dict[str, tuple[HostShard, ...]]:
    """Return each worker's shards in order: the largest first, each to the worker with the fewest hosts."""
    load = dict.fromkeys(workers, 0)
    shards_by_worker: dict[str, list[HostShard]] = {worker: [] for worker in workers}
    for shard in sorted(shards, key=lambda shard: (-len(shard.hosts), shard.name)):
        least_loaded = min(workers, key=lambda worker: load[worker])
        shards_by_worker[least_loaded].append(shard)
        load[least_loaded] += len(shard.hosts)
    return {
        worker: tuple(shards_of_worker)
        for worker, shards_of_worker in shards_by_worker.items()
        if shards_of_worker
    }
