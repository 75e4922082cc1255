"""What a question is answered with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpufleet.catalog import HOURS_PER_MONTH
from gpufleet.sizing.hardware import Hardware, Layout, Offer
from gpufleet.sizing.memory import MemoryEstimate, QuickEstimate
from gpufleet.sizing.plan_warning import PlanWarning
from gpufleet.sizing.speed import Speed
from gpufleet.sizing.workload import Workload

SECONDS_PER_HOUR = 3600
MILLION = 1_000_000


@dataclass(frozen=True)
class Plan:
    """One way to do it.

    ``devices`` are those used, in ``nodes`` that are paid whole. ``served`` tokens per second are what traffic
    asks for, None where nothing but the capacity is known.
    """

    hardware: Hardware
    workload: Workload
    layout: Layout
    replicas: int
    devices: int
    nodes: int
    memory: MemoryEstimate
    speed: Speed | None
    engine: str
    offer: Offer | None = None
    tokens: float | None = None
    served_tokens_per_s: float | None = None
    requests_per_s: float | None = None  # what one replica can take
    full_prompt_tokens_per_s: float | None = (
        None  # prompt tokens per second where only a total length was given
    )
    why_not: str = ""

    @property
    def fits(self) -> bool:
        """Tell whether it can run: memory suffices and no rule blocks it."""
        return self.memory.fits and not self.why_not

    @property
    def tokens_per_s(self) -> float | None:
        """Return the tokens per second of the whole plan."""
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
    def per_stream(self) -> float | None:
        """Return the tokens per second that one stream sees, None for training."""
        return None if self.workload.is_training else self._speed_figure("per_stream")

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
        """Return seconds until a lone request's first token, without waiting in a queue."""
        return None if self.workload.is_training else self._speed_figure("time_to_first_token_s")

    @property
    def request_s(self) -> float | None:
        """Return seconds of one request from its prompt to its last token."""
        first, stream = self.time_to_first_token_s, self.per_stream
        return None if not stream else (first or 0.0) + self.workload.output_tokens / stream

    @property
    def hours(self) -> float | None:
        """Return how long the work takes, None where none was given or the speed is unknown."""
        speed = self.tokens_per_s
        return self.tokens / speed / SECONDS_PER_HOUR if self.tokens and speed else None

    @property
    def usd_per_hour(self) -> float | None:
        """Return what all nodes cost per hour."""
        per_node = self.offer.usd_per_hour if self.offer else None
        return None if per_node is None else per_node * self.nodes

    @property
    def usd_per_month(self) -> float | None:
        """Return what all nodes cost in a month around the clock."""
        return None if self.usd_per_hour is None else self.usd_per_hour * HOURS_PER_MONTH

    @property
    def usd(self) -> float | None:
        """Return what the work costs."""
        hours, usd = self.hours, self.usd_per_hour
        return None if hours is None or usd is None else hours * usd

    @property
    def usd_per_million_tokens(self) -> float | None:
        """Return what a million tokens cost: those served where traffic is given, else those it could make."""
        tokens, usd = self.served_tokens_per_s or self.tokens_per_s, self.usd_per_hour
        return None if not tokens or usd is None else usd / (tokens * SECONDS_PER_HOUR) * MILLION

    @property
    def watts(self) -> float | None:
        """Return the power of all replicas' devices and hosts under that load, an estimate."""
        devices = self._speed_figure("watts", self.replicas)
        return None if devices is None else devices + self.hardware.host_watts * self.nodes

    def with_offer(self, offer: Offer | None) -> Plan:
        """Return the plan as bought in that way."""
        return replace(self, offer=offer)

    def _speed_figure(self, name: str, times: int = 1) -> float | None:
        value = getattr(self.speed, name) if self.speed is not None else None
        return None if value is None else float(value) * times


@dataclass(frozen=True)
class SizingResult:
    """Plans, best first; ``memory`` and ``quick`` are the best plan's. ``considered`` counts kinds of hardware."""

    workload: Workload
    memory: MemoryEstimate
    quick_estimate: QuickEstimate
    plans: tuple[Plan, ...]
    warnings: tuple[PlanWarning, ...]
    considered_count: int
    closest: Plan | None = None  # where no plan meets what was asked
