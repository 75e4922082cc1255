"""Intervals: how far predictions were off for publications that had no part in the fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpufleet.sizing.data_file import load_rows
from gpufleet.sizing.speed.efficiency import ANY

UNMEASURED_WIDENING = 1.5  # for a class of devices without one measurement: the pooled interval, stretched


@dataclass(frozen=True)
class Interval:
    """Bounds of what was published, as multiples of what was predicted; ``known``: the class was measured."""

    low: float
    high: float
    is_measured: bool = True

    def widen(self, factor: float) -> Interval:
        """Return bounds that much farther apart, as ratios."""
        return Interval(self.low**factor, self.high**factor, self.is_measured)


@cache
def load_intervals() -> dict[tuple[str, str], Interval]:
    """Return the bounds by kind of speed and class of device."""
    return {
        (r["metric"], r["device"]): Interval(float(r["low"]), float(r["high"]))
        for r in load_rows("intervals.csv")
    }


def find_interval(metric: str, device: str) -> Interval:
    """Return the bounds that hold: of the class where it was measured often enough, else of all classes pooled."""
    known = load_intervals()
    class_interval = known.get((metric, device))
    if class_interval:
        return class_interval
    pooled = known[metric, ANY]
    return Interval(pooled.low / UNMEASURED_WIDENING, pooled.high * UNMEASURED_WIDENING, is_measured=False)
