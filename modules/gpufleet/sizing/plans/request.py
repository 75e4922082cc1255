"""What is asked for: a workload, on what it may run, what it has to reach, what it may cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpufleet.sizing.workload import Workload

Rank = Literal["cost", "time", "speed", "power"]
RANKS: tuple[Rank, ...] = ("cost", "time", "speed", "power")


@dataclass(frozen=True)
class SizingRequest:
    """One question. ``tokens`` is work to be done; ``requests_per_s`` is traffic to be served.

    ``most_streams``: the batch is to be as large as memory and targets let it be. ``whole_context``: only the
    length of a sequence was given, half of it counts as prompt. ``open_batch``: a training's micro-batch is ours
    to choose. ``reserve_gib`` of each device's memory is other things'.
    """

    workload: Workload
    on: str = ""
    devices: int | None = None
    tokens: float | None = None
    requests_per_s: float | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None
    latency_s: float | None = None
    deadline_h: float | None = None
    budget_usd: float | None = None
    regions: tuple[str, ...] = ()
    clouds: tuple[str, ...] = ()
    purchases: tuple[str, ...] = ()
    owned_only: bool = False
    rank: Rank = "cost"
    needs_max_streams: bool = False
    has_total_context_only: bool = False
    can_choose_batch: bool = False
    limit: int = 20
    root: Path | None = None
    reserve_gib: float = 0.0

    @property
    def is_constrained(self) -> bool:
        """Tell whether money names what may be chosen: parts without a price are then no answer."""
        return bool(self.budget_usd or self.regions or self.clouds or self.purchases)
