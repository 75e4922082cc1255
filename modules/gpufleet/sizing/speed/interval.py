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


FEW_STREAMS = (
    16  # of a server: up to here a step is reads, launches and collectives; beyond, arithmetic and host work
)


def classify_regime(
    device_class: str, *, is_server: bool, streams: float, devices: int, has_experts: bool
) -> tuple[str, str]:
    """Return the kind of speed and the regime whose errors are alike: keys of intervals.csv.

    Local engines are alike by device class. Those of servers differ by what limits them: one stream or few on one
    device or several, many streams of a dense model or of a mixture.
    """
    if not is_server:
        return ("decode" if streams <= 1 else "throughput"), device_class
    maker = device_class.partition("-")[0]
    if streams > FEW_STREAMS:
        return "serving", f"{maker} many streams, {'mixture' if has_experts else 'dense'}"
    amount = "one stream" if streams <= 1 else "few streams"
    return "serving", f"{maker} {amount}, {'several devices' if devices > 1 else 'one device'}"


@cache
def load_speed_intervals() -> dict[tuple[str, str], SpeedInterval]:
    """Return the bounds by kind of speed and regime."""
    return {
        (row["metric"], row["regime"]): build_from_row(SpeedInterval, row)
        for row in load_sizing_rows("intervals.csv")
    }


def find_speed_interval(metric: str, regime: str) -> SpeedInterval:
    """Return the interval of the regime if it has enough measurements, else a widened one of all of that kind."""
    intervals = load_speed_intervals()
    own = intervals.get((metric, regime))
    if own:
        return own
    pooled = intervals[metric if (metric, ANY) in intervals else "serving", ANY]
    return SpeedInterval(
        pooled.low / UNMEASURED_WIDENING, pooled.high * UNMEASURED_WIDENING, is_measured=False
    )
