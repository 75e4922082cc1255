"""Prediction intervals from the errors on publications left out of the fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpufleet.sizing.data_file import load_rows
from gpufleet.sizing.speed.efficiency import ANY

UNMEASURED_WIDENING = (
    1.5  # assumption: widening of the pooled interval for classes without enough measurements
)


@dataclass(frozen=True)
class Interval:
    """Bounds of published over predicted speed; ``is_measured``: the class has its own interval."""

    low: float
    high: float
    is_measured: bool = True

    def widen(self, factor: float) -> Interval:
        """Return both bounds raised to the power ``factor``."""
        return Interval(self.low**factor, self.high**factor, self.is_measured)


@cache
def load_intervals() -> dict[tuple[str, str], Interval]:
    """Return the bounds by metric and device class."""
    return {
        (r["metric"], r["device"]): Interval(r.number("low"), r.number("high"))
        for r in load_rows("intervals.csv")
    }


def find_interval(metric: str, device: str) -> Interval:
    """Return the interval of the class if it has enough measurements, else a widened one of all classes."""
    intervals = load_intervals()
    class_interval = intervals.get((metric, device))
    if class_interval:
        return class_interval
    pooled = intervals[metric, ANY]
    return Interval(pooled.low / UNMEASURED_WIDENING, pooled.high * UNMEASURED_WIDENING, is_measured=False)
