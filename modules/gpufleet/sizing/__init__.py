"""From a workload to hardware: memory, speed, power, cost and ranked plans.

Input: a workload (model, task, precision, lengths, batch) and the catalogue. Output: the memory it needs, its
speed with an interval fitted to published measurements, and ranked plans that the placement rules allow.
"""

from __future__ import annotations

from gpufleet.sizing.hardware import Hardware, HardwareOffer, ParallelLayout
from gpufleet.sizing.hardware_resolver import resolve_hardware
from gpufleet.sizing.memory import (
    MemoryEstimate,
    QuickDeviceEstimate,
    active_weight_bytes,
    bits_per_weight,
    choose_recompute,
    estimate_device_count,
    estimate_memory,
    expected_active_experts,
    find_training_recipe,
    kv_cache_bytes,
    kv_cache_bytes_per_token,
    stored_precision,
    usable_memory_gib,
    weight_bytes,
)
from gpufleet.sizing.plan_warning import PlanWarning
from gpufleet.sizing.plans import (
    PlanOptions,
    SizingPlan,
    SizingRequest,
    SizingResult,
    build_sizing_document,
    find_plans,
    format_sizing_report,
    load_sizing_schema,
    parse_plan_options,
)
from gpufleet.sizing.speed import SpeedEstimate, estimate_speed
from gpufleet.sizing.workload import TrainingSettings, Workload

__all__ = [
    "Hardware",
    "HardwareOffer",
    "MemoryEstimate",
    "ParallelLayout",
    "PlanOptions",
    "PlanWarning",
    "QuickDeviceEstimate",
    "SizingPlan",
    "SizingRequest",
    "SizingResult",
    "SpeedEstimate",
    "TrainingSettings",
    "Workload",
    "active_weight_bytes",
    "bits_per_weight",
    "build_sizing_document",
    "choose_recompute",
    "estimate_device_count",
    "estimate_memory",
    "estimate_speed",
    "expected_active_experts",
    "find_plans",
    "find_training_recipe",
    "format_sizing_report",
    "kv_cache_bytes",
    "kv_cache_bytes_per_token",
    "load_sizing_schema",
    "parse_plan_options",
    "resolve_hardware",
    "stored_precision",
    "usable_memory_gib",
    "weight_bytes",
]
