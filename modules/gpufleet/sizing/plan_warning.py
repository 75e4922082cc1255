"""What a plan's reader has to know: one code, one sentence, one source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Caution:
    """A warning of an answer. ``blocks`` tells that the plan can't be run as asked."""

    code: str
    message: str
    source: str = ""
    blocks: bool = False
