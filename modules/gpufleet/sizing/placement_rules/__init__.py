"""Placement legality: limits of engines, links and accelerators on how a model is placed on devices.

Input: a ``PlacementCase``. Output: warnings with code, message and source. Each module registers its rules in
``RULES``. A rule with ``is_blocking`` means that the placement cannot run.
"""

from __future__ import annotations

from dataclasses import replace

from gpufleet.sizing.hardware import Hardware, ParallelLayout
from gpufleet.sizing.model_engine import choose_model_engine
from gpufleet.sizing.placement_rules import (  # noqa: F401 - importing a module registers its rules in RULES
    attention_heads,
    backend,
    board,
    context,
    interconnect,
    memory,
    mps,
    node_count,
    precision,
    sparsity,
    training_step,
)
from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, RULES, PlacementCase
from gpufleet.sizing.plan_warning import PlanWarning
from gpufleet.sizing.workload import Workload

__all__ = ["RULES", "PlacementCase", "check_placement", "is_placement_blocked"]


def check_placement(
    workload: Workload,
    hardware: Hardware,
    devices: int,
    layout: ParallelLayout,
    *,
    hardware_name: str = "",
    total_devices: int = 0,
) -> list[PlanWarning]:
    """Return the warnings of every rule about a placement, in the order of ``RULES``."""
    case = replace(
        _build_case(workload, hardware, devices, layout),
        hardware_name=hardware_name,
        total_devices=total_devices,
    )
    return [
        PlanWarning(rule.id, message, rule.source, rule.is_blocking)
        for rule, message in PLACEMENT_RULES.find_violations(case)
    ]


def is_placement_blocked(
    workload: Workload, hardware: Hardware, devices: int, layout: ParallelLayout
) -> bool:
    """Return whether a blocking rule forbids the placement."""
    case = _build_case(workload, hardware, devices, layout)
    return any(True for _ in PLACEMENT_RULES.find_violations(case, only_blocking=True))


def _build_case(
    workload: Workload, hardware: Hardware, devices: int, layout: ParallelLayout
) -> PlacementCase:
    runs_on = choose_model_engine(hardware, workload, layout.nodes)
    return PlacementCase(workload, hardware, devices, layout, runs_on)
