"""Rules of thumb for the number of accelerators, and what they leave out."""

from __future__ import annotations

from gpufleet.sizing.hardware import Hardware
from gpufleet.sizing.memory.result import GIB, QuickDeviceEstimate
from gpufleet.sizing.memory.weights import bits_per_weight
from gpufleet.sizing.workload import Workload

TRAINING_FACTOR = 6  # of the rule of thumb, not of our estimate


def estimate_device_count(workload: Workload, hardware: Hardware) -> QuickDeviceEstimate:
    """Return the accelerator count from parameters times bytes per weight (six times that for training)."""
    memory = hardware.accelerator.memory_gib
    size = workload.model.parameters * bits_per_weight(workload.precision) / 8 / GIB
    if workload.is_training:
        return QuickDeviceEstimate(
            TRAINING_FACTOR * size / memory,
            "6 x parameters x bytes per weight / memory of one accelerator",
            "16 to 18 bytes per parameter of mixed-precision AdamW; activations, which grow with tokens; "
            "logits; adapters, 8-bit optimisers and sharding; the runtime's reserve",
        )
    return QuickDeviceEstimate(
        size / memory,
        "parameters x bytes per weight / memory of one accelerator",
        "KV cache; runtime and graphs; usable against nominal memory; whole cards and head divisibility",
    )
