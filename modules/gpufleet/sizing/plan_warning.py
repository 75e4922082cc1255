"""Warnings about a plan: a code, a sentence and its source."""

from __future__ import annotations

from gpufleet.quick_dataclass import dataclass


@dataclass(frozen=True)
class PlanWarning:
    """A warning about a plan. ``is_blocking``: the plan cannot run as requested."""

    code: str
    message: str
    source: str = ""
    is_blocking: bool = False
