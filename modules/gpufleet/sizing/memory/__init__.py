"""Memory of a workload by component, on the fullest device.

Input: a workload, a layout and hardware. Output: weights in exact block sizes, KV cache, activations, gradients,
optimizer states and overhead, whether they fit, and what rules of thumb would give.
"""

from __future__ import annotations

from gpufleet.sizing.memory.estimate import choose_recompute, estimate_memory, usable_gib
from gpufleet.sizing.memory.kv_cache import kv_bytes, kv_bytes_per_token
from gpufleet.sizing.memory.result import MemoryEstimate, QuickEstimate
from gpufleet.sizing.memory.rule_of_thumb import estimate_device_count
from gpufleet.sizing.memory.training_recipe import find_recipe
from gpufleet.sizing.memory.weights import (
    active_weight_bytes,
    bits_per_weight,
    expected_active_experts,
    stored_precision,
    weight_bytes,
)

__all__ = [
    "MemoryEstimate",
    "QuickEstimate",
    "active_weight_bytes",
    "bits_per_weight",
    "choose_recompute",
    "estimate_device_count",
    "estimate_memory",
    "expected_active_experts",
    "find_recipe",
    "kv_bytes",
    "kv_bytes_per_token",
    "stored_precision",
    "usable_gib",
    "weight_bytes",
]
