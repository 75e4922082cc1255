"""From a workload to hardware: memory, speed, power, cost and ranked plans.

Input: a workload (model, task, precision, lengths, batch) and the catalogue. Output: the memory it needs, its
speed with an interval fitted to published measurements, and ranked plans that the placement rules allow.
"""

from __future__ import annotations

from gpufleet.sizing.hardware import Hardware, ParallelLayout
from gpufleet.sizing.memory.estimate import choose_recompute, estimate_memory, usable_memory_gib
from gpufleet.sizing.memory.kv_cache import kv_cache_bytes, kv_cache_bytes_per_token
from gpufleet.sizing.memory.rule_of_thumb import estimate_device_count
from gpufleet.sizing.memory.training_recipe import find_training_recipe
from gpufleet.sizing.memory.weights import (
    active_weight_bytes,
    bits_per_weight,
    expected_active_experts,
    stored_precision,
    weight_bytes,
)
from gpufleet.sizing.workload import TrainingSettings, Workload

__all__ = [
    "Hardware",
    "ParallelLayout",
    "TrainingSettings",
    "Workload",
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
