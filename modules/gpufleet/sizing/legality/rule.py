"""The table of rules on placement, and what a rule is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.model_engine import Engine
from gpufleet.sizing.workload import Workload


@dataclass(frozen=True)
class PlacementCase:
    """One placement to judge: ``devices`` as asked for, ``layout`` as one replica would lie on them."""

    workload: Workload
    hardware: Hardware
    devices: int
    layout: Layout
    engine: Engine
    hardware_name: str = ""  # the hardware as somebody typed it
    total_devices: int = 0  # devices of all replicas together; 0: as asked for


Check = Callable[[PlacementCase], Iterator[str]]


@dataclass(frozen=True)
class Rule:
    """One rule: its code, its reason in general, where that is from; ``blocks`` if nothing can run against it."""

    code: str
    reason: str
    source: str
    check: Check = field(compare=False)
    is_blocking: bool = False


RULES: dict[str, Rule] = {}


def rule(code: str, *, reason: str, source: str, is_blocking: bool = False) -> Callable[[Check], Check]:
    """Enter a check, which yields one sentence per breach, into the table."""

    def register(check: Check) -> Check:
        if code in RULES:
            raise ValueError(f"two rules are called {code}")
        RULES[code] = Rule(code, reason, source, check, is_blocking)
        return check

    return register
