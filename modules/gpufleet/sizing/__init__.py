"""From a workload to hardware: memory, speed, power, money, ranked plans.

In come a workload (model, task, precision, lengths, batch) and the catalogue. Out go what it takes in
memory, how fast it will be with an interval learned from published measurements, and plans that are legal
to place, each with its reasons.
"""

from __future__ import annotations

from gpufleet.sizing.hardware import Hardware, Layout, Offer
from gpufleet.sizing.hardware_resolver import resolve
from gpufleet.sizing.memory import (
    Memory,
    QuickEstimate,
    active_weight_bytes,
    bits_per_weight,
    experts_touched,
    kv_bytes,
    kv_bytes_per_token,
    memory,
    quick_estimate,
    recipe,
    settled,
    stored_precision,
    usable_gib,
    weight_bytes,
)
from gpufleet.sizing.parallelism import layouts
from gpufleet.sizing.plan_warning import Caution
from gpufleet.sizing.plans import Answer, Asked, Plan, Question, document, plan, question, report, schema
from gpufleet.sizing.speed import Speed, speed
from gpufleet.sizing.workload import Training, Workload

__all__ = [
    "Answer",
    "Asked",
    "Caution",
    "Hardware",
    "Layout",
    "Memory",
    "Offer",
    "Plan",
    "Question",
    "QuickEstimate",
    "Speed",
    "Training",
    "Workload",
    "active_weight_bytes",
    "bits_per_weight",
    "document",
    "experts_touched",
    "kv_bytes",
    "kv_bytes_per_token",
    "layouts",
    "memory",
    "plan",
    "question",
    "quick_estimate",
    "recipe",
    "report",
    "resolve",
    "schema",
    "settled",
    "speed",
    "stored_precision",
    "usable_gib",
    "weight_bytes",
]
