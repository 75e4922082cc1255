"""The table of placement rules, and the placement that a rule checks."""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.rule import Rule, RuleTable
from gpufleet.sizing.hardware import Hardware, ParallelLayout
from gpufleet.sizing.model_engine import ModelEngine
from gpufleet.sizing.workload import Workload


@dataclass(frozen=True)
class PlacementCase:
    """One placement to check: ``devices`` as requested, ``layout`` of one replica on them."""

    workload: Workload
    hardware: Hardware
    devices: int
    layout: ParallelLayout
    engine: ModelEngine
    hardware_name: str = ""  # the hardware name as typed by the user
    total_devices: int = 0  # devices of all replicas together; 0: as requested


RULES: dict[str, Rule] = {}

PLACEMENT_RULES: RuleTable[PlacementCase, str] = RuleTable(RULES)
"""Checks of a placement; each yields one message per violation. A placement that breaks a blocking rule cannot run."""
