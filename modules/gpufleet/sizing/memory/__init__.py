"""What a workload takes in memory, part by part, on the fullest device.

In come a workload, a layout and hardware; out go weights in exact block sizes, cache, activations,
gradients, optimiser states and reserve, whether it fits, and what quick formulas would have said.
"""

from __future__ import annotations

from gpufleet.sizing.memory.estimate import memory, settled, usable_gib
from gpufleet.sizing.memory.kv_cache import kv_bytes, kv_bytes_per_token
from gpufleet.sizing.memory.result import Memory, QuickEstimate
from gpufleet.sizing.memory.rule_of_thumb import quick_estimate
from gpufleet.sizing.memory.training_recipe import recipe
from gpufleet.sizing.memory.weights import (
    active_weight_bytes,
    bits_per_weight,
    experts_touched,
    stored_precision,
    weight_bytes,
)

__all__ = [
    "Memory",
    "QuickEstimate",
    "active_weight_bytes",
    "bits_per_weight",
    "experts_touched",
    "kv_bytes",
    "kv_bytes_per_token",
    "memory",
    "quick_estimate",
    "recipe",
    "settled",
    "stored_precision",
    "usable_gib",
    "weight_bytes",
]
