"""Power of devices under load: between idle and rated power."""

from __future__ import annotations

from gpufleet.catalog import Accelerator

IDLE_SHARE = 0.2  # of the rating; a device that waits for others keeps its clocks
MEMORY_BOUND_SHARE = (
    0.8  # busy with memory: RTX 4090 alone drew some 390 of 450 W (ai-benchmarks 43), W7700 140 of 190 (9)
)
COMPUTE_BOUND_SHARE = 0.95  # busy with operations


def estimate_watts(part: Accelerator, devices: int, busy: float, limit: str) -> float | None:
    """Return the watts of devices that are busy for the share ``busy`` of the time, None without a rating."""
    if part.tdp_w is None:
        return None
    working = COMPUTE_BOUND_SHARE if limit == "compute" else MEMORY_BOUND_SHARE
    return part.tdp_w * devices * (IDLE_SHARE + (working - IDLE_SHARE) * max(0.0, min(busy, 1.0)))
