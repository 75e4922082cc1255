"""Which hosts make a shard, and which worker runs it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ELSEWHERE = "elsewhere"  # hosts that are in no rack and no pool


@dataclass(frozen=True)
class Shard:
    """Hosts that one ansible-playbook process configures. ``name`` is their rack's or pool's."""

    name: str
    hosts: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Return a name for the shard's artifacts."""
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", self.name)


def shards_of(hosts: Sequence[str], places: Mapping[str, str], at_most: int = 0) -> tuple[Shard, ...]:
    """Return a shard for each place, in the order of their names; none holds over ``at_most`` hosts (0: any number).

    A rack larger than that is cut into equal parts, ``blades-1.1``, ``blades-1.2``.
    """
    by_place: dict[str, list[str]] = {}
    for host in sorted(hosts):
        by_place.setdefault(places.get(host, ELSEWHERE), []).append(host)
    return tuple(shard for place in sorted(by_place) for shard in _parts(place, by_place[place], at_most))


def _parts(place: str, hosts: list[str], at_most: int) -> Iterable[Shard]:
    count = -(-len(hosts) // at_most) if at_most else 1
    if count == 1:
        return [Shard(place, tuple(hosts))]
    each = -(-len(hosts) // count)
    cut = [hosts[start : start + each] for start in range(0, len(hosts), each)]
    return [Shard(f"{place}.{number}", tuple(part)) for number, part in enumerate(cut, start=1)]


def assign(shards: Sequence[Shard], workers: Sequence[str]) -> dict[str, tuple[Shard, ...]]:
    """Return what each worker runs, one shard after the other: the largest first, each to whoever has least."""
    load = dict.fromkeys(workers, 0)
    given: dict[str, list[Shard]] = {worker: [] for worker in workers}
    for shard in sorted(shards, key=lambda shard: (-len(shard.hosts), shard.name)):
        least = min(workers, key=lambda worker: load[worker])
        given[least].append(shard)
        load[least] += len(shard.hosts)
    return {worker: tuple(mine) for worker, mine in given.items() if mine}
