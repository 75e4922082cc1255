"""Compare kernels, firmware and drivers of equal nodes: the majority is expected, the minority is named."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

NO_VERSION = "none"


@dataclass(frozen=True)
class NodeVersions:
    """One node's versions by part; ``group`` is what it should agree with."""

    name: str
    group: str
    parts: Mapping[str, str]


@dataclass(frozen=True)
class VersionFinding:
    """One node that has another version than most of its group; ``usual`` is empty where no version has a majority."""

    node: str
    group: str
    part: str
    version: str
    usual: str
    usual_count: int
    group_size: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def compare_versions(nodes: Iterable[NodeVersions]) -> list[VersionFinding]:
    """Return, for each part of each group, the nodes that differ from the majority; without one, all of them."""
    groups: dict[str, list[NodeVersions]] = defaultdict(list)
    for node in nodes:
        groups[node.group].append(node)
    return [
        finding
        for _, members in sorted(groups.items())
        for part in sorted({part for node in members for part in node.parts})
        for finding in compare_part(part, members)
    ]


def compare_part(part: str, members: list[NodeVersions]) -> list[VersionFinding]:
    """Return the nodes of a group that differ in one part."""
    counts = Counter(node.parts.get(part, NO_VERSION) for node in members)
    usual, count = counts.most_common(1)[0]
    has_majority = 2 * count > len(members)
    return [
        VersionFinding(
            node.name,
            node.group,
            part,
            node.parts.get(part, NO_VERSION),
            usual if has_majority else "",
            count,
            len(members),
        )
        for node in sorted(members, key=lambda node: node.name)
        if len(counts) > 1 and (not has_majority or node.parts.get(part, NO_VERSION) != usual)
    ]
