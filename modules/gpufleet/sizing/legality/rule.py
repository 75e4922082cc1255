"""The table of placement rules, and the placement that a rule checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpufleet.sizing.hardware import Hardware, ParallelLayout
from gpufleet.sizing.model_engine import Engine
from gpufleet.sizing.workload import Workload


@dataclass(frozen=True)
class PlacementCase:
    """One placement to check: ``devices`` as requested, ``layout`` of one replica on them."""

    workload: Workload
    hardware: Hardware
    devices: int
    layout: ParallelLayout
    engine: Engine
    hardware_name: str = ""  # the hardware name as typed by the user
    total_devices: int = 0  # devices of all replicas together; 0: as requested


Check = Callable[[PlacementCase], Iterator[str]]


@dataclass(frozen=True)
class Rule:
    """One rule: code, reason and source. ``is_blocking``: a placement that breaks it cannot run."""

    code: str
    reason: str
    source: str
    check: Check = field(compare=False)
    is_blocking: bool = False


RULES: dict[str, Rule] = {}


def rule(code: str, *, reason: str, source: str, is_blocking: bool = False) -> Callable[[Check], Check]:
    """Register a check, which yields one message per violation, in ``RULES``."""

    def register(check: Check) -> Check:
        if code in RULES:
            raise ValueError(f"two rules are called {code}")
        RULES[code] = Rule(code, reason, source, check, is_blocking)
        return check

    return register
