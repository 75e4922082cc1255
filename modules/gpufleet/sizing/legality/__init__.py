"""Placement legality: rules that engines, links and parts put on how a model may lie on devices.

In comes a placement (``Case``). Out come cautions, each with its code, its sentence and its source. A rule
is one small file that enters itself into ``RULES``; one that ``blocks`` says that nothing runs as asked.
"""

from __future__ import annotations

from dataclasses import replace

from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.legality import (  # noqa: F401 - importing a module registers its rules in RULES
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
from gpufleet.sizing.legality.rule import RULES, Case, Rule
from gpufleet.sizing.model_engine import engine_on
from gpufleet.sizing.plan_warning import Caution
from gpufleet.sizing.workload import Workload

__all__ = ["RULES", "Case", "Rule", "blocked", "judge"]


def judge(
    workload: Workload, hardware: Hardware, devices: int, layout: Layout, *, asked: str = "", used: int = 0
) -> list[Caution]:
    """Return what every rule says of a placement, in the order of the table."""
    case = replace(_case(workload, hardware, devices, layout), asked=asked, used=used)
    return [
        Caution(rule.code, text, rule.source, rule.blocks)
        for rule in RULES.values()
        for text in rule.check(case)
    ]


def blocked(workload: Workload, hardware: Hardware, devices: int, layout: Layout) -> bool:
    """Tell whether a rule says that nothing runs there as asked."""
    case = _case(workload, hardware, devices, layout)
    return any(True for rule in RULES.values() if rule.blocks for _ in rule.check(case))


def _case(workload: Workload, hardware: Hardware, devices: int, layout: Layout) -> Case:
    runs_on = engine_on(hardware, workload, layout.nodes)
    return Case(workload, hardware, devices, layout, runs_on)
