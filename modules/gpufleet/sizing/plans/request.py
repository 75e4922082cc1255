"""A sizing request: a workload, permitted hardware, targets and budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gpufleet.sizing.parallelism import ParallelSizes
from gpufleet.sizing.workload import Workload

Rank = Literal["cost", "time", "speed", "power"]
RANKS: tuple[Rank, ...] = ("cost", "time", "speed", "power")


@dataclass(frozen=True)
class SizingRequest:
    """A sizing request. ``tokens`` is the amount of work; ``requests_per_s`` is the traffic to serve.

    ``needs_max_streams``: the batch is as large as memory and targets allow. ``has_total_context_only``: only the
    length of a sequence was given, half of it counts as prompt. ``can_choose_batch``: the search chooses a training's
    micro-batch. ``reserve_gib`` of each device's memory is reserved for other processes.
    ``sizes`` fix the layout of one replica.
    """

    workload: Workload
    hardware_name: str = ""
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
    max_plans: int = 20
    project_root: Path | None = None
    reserve_gib: float = 0.0
    sizes: ParallelSizes = field(default_factory=ParallelSizes)

    @property
    def has_offer_constraints(self) -> bool:
        """True if budget, region, cloud or purchase limit the choice; hardware without a price is then left out."""
        return bool(self.budget_usd or self.regions or self.clouds or self.purchases)
