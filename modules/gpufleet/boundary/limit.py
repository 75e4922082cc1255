"""How large a document from outside may be, by who wrote it.

The figures are choices, not measurements: each is at least ten times what the largest recorded case of its kind in
``tests/cases/`` holds, and small enough that decoding stays under two seconds and 300 MB.
"""

from __future__ import annotations

from gpufleet.quick_dataclass import dataclass

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True)
class DocumentLimits:
    """Bounds of one document: bytes of input, levels of nesting, values in total, characters of one text."""

    bytes: int
    depth: int = 64
    values: int = 200_000
    characters: int = 1 * MIB


OPERATOR_FILE = DocumentLimits(bytes=4 * MIB, values=100_000)
"""A file that a person writes: a stack, a rack, a policy, a usage file."""

NODE_REPORT = DocumentLimits(bytes=4 * MIB, depth=32, values=50_000, characters=256 * KIB)
"""What a node reports: facts, burn-in records, evidence."""

RUNNER_EVENT = DocumentLimits(bytes=8 * MIB, depth=64, values=200_000)
"""One event of an ansible-runner run."""

ENGINE_DOCUMENT = DocumentLimits(bytes=64 * MIB, depth=200, values=1_500_000, characters=16 * MIB)
"""A preview, state or event log of the Pulumi engine; large fleets make large ones."""

LARGE_DOCUMENT = DocumentLimits(bytes=32 * MIB, depth=64, values=1_500_000, characters=1 * MIB)
"""A price list of a cloud, or another catalogue that is fetched or imported on request."""

OWN_STATE = DocumentLimits(bytes=16 * MIB, depth=64, values=500_000)
"""A state file of ours: another version wrote it, a full disk cut it off, or somebody edited it."""
