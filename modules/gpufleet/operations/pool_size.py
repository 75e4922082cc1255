"""Pools whose groups have fewer or more members than declared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gpufleet import fleet
from gpufleet.nodes import SourceReport
from gpufleet.nodes.cloud_api.instance import CloudGroup


@dataclass(frozen=True)
class PoolSize:
    """The members that a cloud lists for the groups of one pool; the rungs of a ladder count together."""

    pool: str
    cloud: str
    groups: tuple[str, ...]
    minimum: int
    maximum: int
    found: int

    @property
    def is_as_declared(self) -> bool:
        """True if the number of members is the declared one, or within the declared range."""
        return self.minimum <= self.found <= self.maximum

    @property
    def text(self) -> str:
        """Return one line with the declared and the found number."""
        bounds = str(self.minimum) if self.minimum == self.maximum else f"{self.minimum} to {self.maximum}"
        return f"{self.cloud} group {' + '.join(self.groups)}: declared {bounds}, found {self.found}"

    def as_json(self) -> dict[str, Any]:
        """Return the comparison for programs."""
        return {
            "pool": self.pool,
            "cloud": self.cloud,
            "groups": list(self.groups),
            "declared": {"min": self.minimum, "max": self.maximum},
            "found": self.found,
            "as_declared": self.is_as_declared,
        }


def compare_pool_sizes(
    declared: fleet.Fleet, groups: Sequence[CloudGroup], reports: Iterable[SourceReport]
) -> list[PoolSize]:
    """Compare each declared pool with its groups; a pool of which a group was not listed is left out."""
    sizes = {group: size for report in reports for group, size in report.group_sizes.items()}
    compared = []
    for pool in declared.pools:
        own = [group for group in groups if group.pool == pool.name and group.cloud == pool.cloud]
        if own and all(group.key in sizes for group in own):
            found = sum(sizes[group.key] for group in own)
            names = tuple(group.name for group in own)
            compared.append(PoolSize(pool.name, pool.cloud, names, pool.count.min, pool.count.max, found))
    return compared
