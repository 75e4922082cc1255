"""The table of rules on placement, and what a rule is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.model_engine import Engine
from gpufleet.sizing.workload import Workload


@dataclass(frozen=True)
class Case:
    """One placement to judge: ``devices`` as asked for, ``layout`` as one replica would lie on them."""

    workload: Workload
    hardware: Hardware
    devices: int
    layout: Layout
    engine: Engine
    asked: str = ""  # the hardware as somebody typed it
    used: int = 0  # devices of all replicas together; 0: as asked for


Check = Callable[[Case], Iterator[str]]


@dataclass(frozen=True)
class Rule:
    """One rule: its code, its reason in general, where that is from; ``blocks`` if nothing can run against it."""

    code: str
    reason: str
    source: str
    check: Check = field(compare=False)
    blocks: bool = False


RULES: dict[str, Rule] = {}


def rule(code: str, *, reason: str, source: str, blocks: bool = False) -> Callable[[Check], Check]:
    """Enter a check, which yields one sentence per breach, into the table."""

    def enter(check: Check) -> Check:
        if code in RULES:
            raise ValueError(f"two rules are called {code}")
        RULES[code] = Rule(code, reason, source, check, blocks)
        return check

    return enter
