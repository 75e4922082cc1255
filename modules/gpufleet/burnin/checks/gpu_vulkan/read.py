"""What cards computed, moved and saw through Vulkan."""

from __future__ import annotations

from gpufleet.burnin.card_readings import extract_card_metrics
from gpufleet.burnin.evidence import CheckReadings, Raw

# VkResult of vulkan_core.h: the driver lost the device, or it did not finish within the agent's time limit.
LOST_CODES = frozenset({-4, 2})


def read_record(raw: Raw) -> CheckReadings:
    """Read the check that works through Vulkan."""
    return extract_card_metrics(raw, LOST_CODES)
