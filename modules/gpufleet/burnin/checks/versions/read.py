"""Versions by part of a node's record: typed, bounded, and equal for equal parts."""

from __future__ import annotations

from gpufleet.boundary import make_printable
from gpufleet.burnin.evidence import CheckReadings, Raw, mapping_or_empty

# Parts of which one node has several equal ones, and of which two versions in one node are a warning.
UNIFORM_PARTS = ("GPU ", "RDMA ")
MAX_PARTS, MAX_VERSIONS, LONGEST_TEXT = 200, 20, 100


def read_record(raw: Raw) -> CheckReadings:
    """Equal parts of one node with different firmware; nodes are compared with each other elsewhere."""
    parts = read_parts(raw)
    if not parts:
        return CheckReadings(unreadable="the record has no versions")
    mixed = sum(len(versions) > 1 for part, versions in parts.items() if part.startswith(UNIFORM_PARTS))
    return CheckReadings(
        {"mixed_firmware": float(mixed), "parts": float(len(parts))}, float(len(parts)), "parts"
    )


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
