"""Power of devices under load: between idle and rated power."""

from __future__ import annotations

from gpufleet.catalog import Accelerator

IDLE_SHARE = 0.2  # assumption, of the rating: a waiting device keeps its clocks
MEMORY_BOUND_SHARE = (
    0.8  # memory-bound: RTX 4090 drew some 390 of 450 W (ai-benchmarks 43), W7700 140 of 190 W (9)
)
COMPUTE_BOUND_SHARE = 0.95  # assumption: close to the rating when compute-bound


def estimate_watts(
    accelerator: Accelerator, devices: int, busy_share: float, bottleneck: str
) -> float | None:
    """Return the watts of devices that are busy for the share ``busy_share`` of the time, None without a rating."""
    if accelerator.tdp_w is None:
        return None
    working = COMPUTE_BOUND_SHARE if bottleneck == "compute" else MEMORY_BOUND_SHARE
    return (
        accelerator.tdp_w * devices * (IDLE_SHARE + (working - IDLE_SHARE) * max(0.0, min(busy_share, 1.0)))
    )
