"""Compare kernels, firmware and drivers of equal nodes: the majority is expected, the minority is named."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gpufleet.boundary import make_printable
from gpufleet.burnin.evidence import CheckReadings, Raw, mapping_or_empty

NO_VERSION = "none"
# Parts of which one node has several equal ones, and of which two versions in one node are a warning.
UNIFORM_PARTS = ("GPU ", "RDMA ")
MAX_PARTS, MAX_VERSIONS, LONGEST_TEXT = 200, 20, 100


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


def read_parts(raw: Raw) -> dict[str, tuple[str, ...]]:
    """Return the versions by part of a record, typed and bounded."""
    parts = mapping_or_empty(raw.get("parts"))
    return {
        bound_text(part): tuple(map(bound_text, versions[:MAX_VERSIONS]))
        for part, versions in list(parts.items())[:MAX_PARTS]
        if isinstance(versions, list) and versions
    }


def bound_text(value: object) -> str:
    """Return a text of a node's record, printable and short."""
    return make_printable(str(value))[:LONGEST_TEXT]


def extract_versions_metrics(raw: Raw) -> CheckReadings:
    """Equal parts of one node with different firmware; nodes are compared with each other elsewhere."""
    parts = read_parts(raw)
    if not parts:
        return CheckReadings(unreadable="the record has no versions")
    mixed = sum(len(versions) > 1 for part, versions in parts.items() if part.startswith(UNIFORM_PARTS))
    return CheckReadings(
        {"mixed_firmware": float(mixed), "parts": float(len(parts))}, float(len(parts)), "parts"
    )


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
