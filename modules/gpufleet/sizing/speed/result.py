"""The predicted speed of one replica."""

from __future__ import annotations

from typing import Literal

from gpufleet.quick_dataclass import dataclass

Limit = Literal["memory bandwidth", "compute", "interconnect", "network", "host link", "launch overhead"]


@dataclass(frozen=True)
class SpeedEstimate:
    """Tokens per second of one replica: generated (inference) or trained on. None where the catalogue lacks a rate.

    ``low`` and ``high`` bound 80 % of expected measurements. The rate of servers includes prompt time, because they
    process prompts while they generate; the rate of local engines is generation alone, as they report it.
    """

    tokens_per_s: float | None
    low: float | None
    high: float | None
    per_stream: float | None
    prompt_tokens_per_s: float | None
    time_to_first_token_s: float | None
    limit: Limit | None
    watts: float | None
    notes: tuple[str, ...] = ()
