"""What cards computed, moved and saw through HIP."""

from __future__ import annotations

from gpufleet.burnin.card_readings import extract_card_metrics
from gpufleet.burnin.evidence import CheckReadings, Raw

# hipError_t of hip_runtime_api.h: uncorrectable ECC, illegal address, launch timeout and failure; and our time limit.
LOST_CODES = frozenset({214, 700, 702, 719, 600})


def read_record(raw: Raw) -> CheckReadings:
    """Read the check that works through HIP."""
    return extract_card_metrics(raw, LOST_CODES)
