"""Prediction intervals from the errors on publications left out of the fit."""

from __future__ import annotations

from functools import cache

from gpufleet.boundary import build_from_row
from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.data_file import load_sizing_rows
from gpufleet.sizing.speed.efficiency import ANY

UNMEASURED_WIDENING = (
    1.5  # assumption: widening of the pooled interval for classes without enough measurements
)


@dataclass(frozen=True)
class SpeedInterval:
    """Bounds of published over predicted speed; ``is_measured``: the class has its own interval."""

    low: float
    high: float
    is_measured: bool = True

    def widen(self, exponent: float) -> SpeedInterval:
        """Return both bounds raised to the power ``exponent``."""
        return SpeedInterval(self.low**exponent, self.high**exponent, self.is_measured)


@cache
def load_speed_intervals() -> dict[tuple[str, str], SpeedInterval]:
    """Return the bounds by metric and device class."""
    return {
        (row["metric"], row["device"]): build_from_row(SpeedInterval, row)
        for row in load_sizing_rows("intervals.csv")
    }


def find_speed_interval(metric: str, device_class: str) -> SpeedInterval:
    """Return the interval of the class if it has enough measurements, else a widened one of all classes."""
    intervals = load_speed_intervals()
    class_interval = intervals.get((metric, device_class))
    if class_interval:
        return class_interval
    pooled = intervals[metric, ANY]
    return SpeedInterval(
        pooled.low / UNMEASURED_WIDENING, pooled.high * UNMEASURED_WIDENING, is_measured=False
    )
