"""A sizing request: a workload, permitted hardware, targets and budget."""

from __future__ import annotations

from dataclasses import field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal

from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.parallelism import ParallelSizes
from gpufleet.sizing.workload import Workload

Rank = Literal["cost", "time", "speed", "power"]
RANKS: tuple[Rank, ...] = ("cost", "time", "speed", "power")


@dataclass(frozen=True)
class SizingRequest:
    """A sizing request. ``tokens`` is the amount of work; ``requests_per_s`` is the traffic to serve.

    ``users`` is how many people wait for an answer at the same time, ``tokens_per_user`` the tokens per second that
    each reads at least. ``day`` is the day of the answer, by which a price is stale or not. ``usd_per_kwh`` None: the
    catalogue's.

    ``needs_max_streams``: the batch is as large as memory and targets allow. ``has_total_context_only``: only the
    length of a sequence was given, half of it counts as prompt. ``can_choose_batch``: the search chooses a training's
    micro-batch. ``reserve_gib`` of each device's memory is reserved for other processes.
    ``sizes`` fix the layout of one replica.
    """

    workload: Workload
    hardware_names: tuple[str, ...] = ()
    host_name: str = ""  # the computer that a card is in
    slot_name: str = ""
    devices: int | None = None
    tokens: float | None = None
    requests_per_s: float | None = None
    users: int | None = None
    tokens_per_user: float | None = None
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
    usd_per_kwh: float | None = None
    day: date = field(default_factory=lambda: datetime.now(UTC).date())
    sizes: ParallelSizes = field(default_factory=ParallelSizes)

    @property
    def typed_name(self) -> str:
        """Return the name of the hardware as typed, empty for none or several."""
        return self.hardware_names[0] if len(self.hardware_names) == 1 else ""

    @property
    def is_serving(self) -> bool:
        """True for inference without an amount of work: it runs round the clock."""
        return not self.workload.is_training and self.tokens is None

    @property
    def needs_many_streams(self) -> bool:
        """True if the number of streams is searched: as many as fit, or as the traffic needs."""
        return self.needs_max_streams or self.requests_per_s is not None

    @property
    def has_offer_constraints(self) -> bool:
        """True if budget, region, cloud or purchase limit the choice; hardware without a price is then left out."""
        return bool(self.budget_usd or self.regions or self.clouds or self.purchases)
