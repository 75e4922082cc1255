"""Memory of a workload by component, on the fullest device.

Input: a workload, a layout and hardware. Output: weights in exact block sizes, KV cache, activations, gradients,
optimizer states and overhead, whether they fit, and what rules of thumb would give.
"""

from __future__ import annotations

from gpufleet.sizing.memory.estimate import choose_recompute, estimate_memory, usable_memory_gib
from gpufleet.sizing.memory.kv_cache import kv_cache_bytes, kv_cache_bytes_per_token
from gpufleet.sizing.memory.result import MemoryEstimate, QuickDeviceEstimate
from gpufleet.sizing.memory.rule_of_thumb import estimate_device_count
from gpufleet.sizing.memory.training_recipe import find_training_recipe
from gpufleet.sizing.memory.weights import (
    active_weight_bytes,
    bits_per_weight,
    expected_active_experts,
    stored_precision,
    weight_bytes,
)

__all__ = [
    "MemoryEstimate",
    "QuickDeviceEstimate",
    "active_weight_bytes",
    "bits_per_weight",
    "choose_recompute",
    "estimate_device_count",
    "estimate_memory",
    "expected_active_experts",
    "find_training_recipe",
    "kv_cache_bytes",
    "kv_cache_bytes_per_token",
    "stored_precision",
    "usable_memory_gib",
    "weight_bytes",
]
