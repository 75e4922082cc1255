"""Patterns of a GPU's memory, and what is kept of places that read back wrong."""

from __future__ import annotations

from typing import Any, Iterable  # noqa: UP035 - Python 3.9 runs this

from .gpu_device import ADDRESS_BITS

PATTERNS = {
    "address": ADDRESS_BITS,
    "inverse": (0xFFFFFFFF, 0xFFFFFFFF),
    "00": (0, 0),
    "ff": (0, 0xFFFFFFFF),
    "55": (0, 0x55555555),
    "aa": (0, 0xAAAAAAAA),
}
MAX_FAULTS = 16
# Spreads the chunks' numbers over all seeds; ctypes keeps the low 32 bits.
SEED_FACTOR = 0x9E3779B1


def note_faults(
    faults: list[dict[str, Any]], pattern: str, chunk_counts: Iterable[tuple[int, int, int]]
) -> None:
    """Add what reading again, chunk by chunk, still counts: wrong vectors, the first of them, and the bits.

    A fault that stays is in the cells, one that vanishes was on the way.
    """
    count_before = len(faults)
    for number, (vectors, first, bits) in enumerate(chunk_counts):
        if vectors and len(faults) < MAX_FAULTS:
            fault = {"pattern": pattern, "chunk": number, "vectors": vectors, "first_vector": first}
            faults.append({**fault, "bits": f"{bits:08x}"})
    if count_before == len(faults) < MAX_FAULTS:
        faults.append({"pattern": pattern, "vanished": True})
