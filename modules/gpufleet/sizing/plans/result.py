"""The result of sizing: plans and warnings."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.catalog import HOURS_PER_MONTH
from gpufleet.catalog.purchase_price import PowerPrice, PurchasePrice
from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.hardware import Hardware, HardwareOffer, ParallelLayout
from gpufleet.sizing.memory.result import MemoryEstimate, QuickDeviceEstimate
from gpufleet.sizing.model_engine import ModelEngine
from gpufleet.sizing.plan_warning import PlanWarning
from gpufleet.sizing.speed import SpeedEstimate
from gpufleet.sizing.workload import Workload

SECONDS_PER_HOUR = 3600
MILLION = 1_000_000


@dataclass(frozen=True)
class SizingPlan:
    """One way to run the workload.

    ``devices`` are those in use; all ``nodes`` are paid in full. ``served_tokens_per_s`` is the rate that the requested
    traffic needs, None without traffic.
    """

    hardware: Hardware
    workload: Workload
    layout: ParallelLayout
    replicas: int
    devices: int
    nodes: int
    memory: MemoryEstimate
    speed: SpeedEstimate | None
    engine: ModelEngine
    offer: HardwareOffer | None = None
    tokens: float | None = None
    latency_s: float | None = None  # the requested bound of a complete request
    users: int | None = None  # people who wait for an answer at the same time
    served_tokens_per_s: float | None = None
    requests_per_s: float | None = None  # capacity of one replica
    full_prompt_tokens_per_s: float | None = None  # prompt tokens per second if only a total length was given
    rejection_reason: str = ""

    @property
    def is_feasible(self) -> bool:
        """True if memory suffices and no rule blocks the plan."""
        return self.memory.fits and not self.rejection_reason

    @property
    def tokens_per_s(self) -> float | None:
        """Return the tokens per second of all replicas."""
        return self._speed_figure("tokens_per_s", self.replicas)

    @property
    def tokens_per_s_low(self) -> float | None:
        """Return the lower bound of the 80 % interval."""
        return self._speed_figure("low", self.replicas)

    @property
    def tokens_per_s_high(self) -> float | None:
        """Return the upper bound of the 80 % interval."""
        return self._speed_figure("high", self.replicas)

    @property
    def tokens_per_s_per_stream(self) -> float | None:
        """Return the tokens per second that one stream sees, None for training."""
        return None if self.workload.is_training else self._speed_figure("per_stream")

    @property
    def streams(self) -> int:
        """Return how many requests all replicas answer at the same time."""
        return self.workload.batch * self.replicas

    @property
    def tokens_per_s_per_user(self) -> float | None:
        """Return the tokens per second of each request while all streams are busy, prompts included."""
        return None if self.tokens_per_s is None else self.tokens_per_s / self.streams

    @property
    def tokens_per_s_low_per_user(self) -> float | None:
        """Return the lower bound of the 80 % interval of a request's tokens per second."""
        return None if self.tokens_per_s_low is None else self.tokens_per_s_low / self.streams

    @property
    def prompt_tokens_per_s(self) -> float | None:
        """Return the prompt tokens per second of one replica, None for training."""
        return (
            None
            if self.workload.is_training
            else self.full_prompt_tokens_per_s or self._speed_figure("prompt_tokens_per_s")
        )

    @property
    def time_to_first_token_s(self) -> float | None:
        """Return seconds to the first token, without time in a queue; None for training."""
        return None if self.workload.is_training else self._speed_figure("time_to_first_token_s")

    @property
    def request_duration_s(self) -> float | None:
        """Return seconds from the start of a request to its last token; of an encoder, of a batch of documents."""
        first, stream = self.time_to_first_token_s, self.tokens_per_s_per_stream
        if self.workload.model.is_encoder:
            return 1 / stream if stream else None
        return None if not stream else (first or 0.0) + self.workload.output_tokens / stream

    @property
    def work_hours(self) -> float | None:
        """Return the hours of the work, None without work or with unknown speed."""
        speed = self.tokens_per_s
        return self.tokens / speed / SECONDS_PER_HOUR if self.tokens and speed else None

    @property
    def usd_per_hour(self) -> float | None:
        """Return the cost of all nodes per hour."""
        per_node = self.offer.usd_per_hour if self.offer else None
        return None if per_node is None else per_node * self.nodes

    @property
    def usd_per_month(self) -> float | None:
        """Return the cost of all nodes for a month of 730 hours."""
        return None if self.usd_per_hour is None else self.usd_per_hour * HOURS_PER_MONTH

    @property
    def total_usd(self) -> float | None:
        """Return the cost of the work."""
        hours, usd = self.work_hours, self.usd_per_hour
        return None if hours is None or usd is None else hours * usd

    @property
    def usd_per_million_tokens(self) -> float | None:
        """Return the cost of a million tokens: of the served ones with traffic, else at full capacity."""
        tokens, usd = self.served_tokens_per_s or self.tokens_per_s, self.usd_per_hour
        return None if not tokens or usd is None else usd / (tokens * SECONDS_PER_HOUR) * MILLION

    @property
    def total_watts(self) -> float | None:
        """Return the estimated power of all devices and hosts under that load."""
        devices = self._speed_figure("watts", self.replicas)
        return None if devices is None else devices + self.hardware.host_watts * self.nodes

    def with_offer(self, offer: HardwareOffer | None) -> SizingPlan:
        """Return the plan with that offer."""
        return replace(self, offer=offer)

    def _speed_figure(self, name: str, times: int = 1) -> float | None:
        value = getattr(self.speed, name) if self.speed is not None else None
        return None if value is None else float(value) * times


@dataclass(frozen=True)
class PurchaseOption:
    """Hardware of a plan to buy: ``units`` of it; ``price`` None if no price is known.

    ``break_even_months`` are those after which rent costs more than purchase and power, at the lower and at the upper
    price; None if power costs as much as rent, or if the rent, the price or the power is not known.
    """

    name: str
    units: int
    price: PurchasePrice | None
    usd_low: float | None
    usd_high: float | None
    rent_usd_per_month: float | None
    power_usd_per_month: float | None
    break_even_months: tuple[float, float] | None
    power_price: PowerPrice


@dataclass(frozen=True)
class SizingResult:
    """Plans, best first; ``memory`` and ``quick_estimate`` are the best plan's."""

    workload: Workload
    memory: MemoryEstimate
    quick_estimate: QuickDeviceEstimate
    plans: tuple[SizingPlan, ...]
    warnings: tuple[PlanWarning, ...]
    considered_count: int
    closest_plan: SizingPlan | None = None  # the nearest plan if none meets the request
    purchases: tuple[PurchaseOption, ...] = ()  # the same hardware bought, next to rented
    recommendation: str = ""  # which plan, why, and what would change it
