"""From a workload to hardware: memory, speed, power, cost and ranked plans.

Input: a workload (model, task, precision, lengths, batch) and the catalogue. Output: the memory it needs, its
speed with an interval fitted to published measurements, and ranked plans that the placement rules allow.
"""

from __future__ import annotations

from gpufleet.sizing.hardware import Hardware, Offer, ParallelLayout
from gpufleet.sizing.hardware_resolver import resolve_hardware
from gpufleet.sizing.memory import (
    MemoryEstimate,
    QuickEstimate,
    active_weight_bytes,
    bits_per_weight,
    choose_recompute,
    estimate_device_count,
    estimate_memory,
    expected_active_experts,
    find_recipe,
    kv_bytes,
    kv_bytes_per_token,
    stored_precision,
    usable_gib,
    weight_bytes,
)
from gpufleet.sizing.parallelism import list_layouts
from gpufleet.sizing.plan_warning import PlanWarning
from gpufleet.sizing.plans import (
    Plan,
    PlanOptions,
    SizingRequest,
    SizingResult,
    build_document,
    find_plans,
    format_report,
    load_schema,
    parse_options,
)
from gpufleet.sizing.speed import Speed, estimate_speed
from gpufleet.sizing.workload import Training, Workload

__all__ = [
    "Hardware",
    "MemoryEstimate",
    "Offer",
    "ParallelLayout",
    "Plan",
    "PlanOptions",
    "PlanWarning",
    "QuickEstimate",
    "SizingRequest",
    "SizingResult",
    "Speed",
    "Training",
    "Workload",
    "active_weight_bytes",
    "bits_per_weight",
    "build_document",
    "choose_recompute",
    "estimate_device_count",
    "estimate_memory",
    "estimate_speed",
    "expected_active_experts",
    "find_plans",
    "find_recipe",
    "format_report",
    "kv_bytes",
    "kv_bytes_per_token",
    "list_layouts",
    "load_schema",
    "parse_options",
    "resolve_hardware",
    "stored_precision",
    "usable_gib",
    "weight_bytes",
]
