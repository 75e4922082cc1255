"""What a plan's reader has to know: one code, one sentence, one source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlanWarning:
    """A warning of an answer. ``blocks`` tells that the plan can't be run as asked."""

    code: str
    message: str
    source: str = ""
    is_blocking: bool = False
