"""The table of placement rules, and the placement that a rule checks."""

from __future__ import annotations

from gpufleet.quick_dataclass import dataclass
from gpufleet.rule import Rule, RuleTable
from gpufleet.sizing.hardware import Hardware, ParallelLayout
from gpufleet.sizing.model_engine import ModelEngine, choose_model_engine
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

    @classmethod
    def on_one_device(cls, workload: Workload, hardware: Hardware, hardware_name: str = "") -> PlacementCase:
        """Return the placement on one device, by the default engine if the workload names none."""
        engine = choose_model_engine(hardware, workload)
        return cls(workload, hardware, 1, ParallelLayout(), engine, hardware_name)


RULES: dict[str, Rule] = {}

PLACEMENT_RULES: RuleTable[PlacementCase, str] = RuleTable(RULES)
"""Checks of a placement; each yields one message per violation. A placement that breaks a blocking rule cannot run."""
