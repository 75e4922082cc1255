"""Placement legality: limits of engines, links and accelerators on how a model is placed on devices.

Input: a ``PlacementCase``. Output: warnings with code, message and source. Each module registers its rules in
``RULES``. A rule with ``is_blocking`` means that the placement cannot run.
"""

from __future__ import annotations

from gpufleet.sizing.placement_rules import (  # noqa: F401 - importing a module registers its rules in RULES
    attention_heads,
    backend,
    board,
    context,
    interconnect,
    memory,
    modelled,
    mps,
    node_count,
    precision,
    sparsity,
    training_step,
)
from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, RULES, PlacementCase
from gpufleet.sizing.plan_warning import PlanWarning

__all__ = ["RULES", "PlacementCase", "check_placement", "is_placement_blocked"]


def check_placement(case: PlacementCase) -> list[PlanWarning]:
    """Return the warnings of every rule about a placement, in the order of ``RULES``."""
    return [
        PlanWarning(rule.id, message, rule.source, rule.is_blocking)
        for rule, message in PLACEMENT_RULES.find_violations(case)
    ]


def is_placement_blocked(case: PlacementCase) -> bool:
    """Return whether a blocking rule forbids the placement."""
    return any(True for _ in PLACEMENT_RULES.find_violations(case, only_blocking=True))
