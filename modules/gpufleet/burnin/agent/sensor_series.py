"""The series of a card's sensors while load runs, whichever library reads them."""

from __future__ import annotations

import threading
import time
from typing import Any, Protocol

# Units are in the names; event_reasons is the bit mask of NVML's clock event reasons. A source that cannot tell says
# None.
REASONS = "event_reasons"
COLUMNS = (
    "sm_mhz",
    "memory_mhz",
    "power_mw",
    "instant_power_mw",
    "celsius",
    "memory_celsius",
    "margin_c",
    REASONS,
    "link_generation",
    "link_lanes",
)
MAX_SAMPLES = 120


class SensorSource(Protocol):
    """Whatever reads the columns of a series."""

    def read_sample(self) -> list[int | None]:
        """Return one reading of every column."""


class SensorRecorder:
    """Reads a GPU's sensors while load runs; keeps a bounded series, and the extremes of all readings.

    When the series is full, every second sample goes and the interval doubles.
    """

    def __init__(self, sensors: SensorSource | None, interval_s: float) -> None:
        self.sensors, self.interval_s = sensors, interval_s
        self.samples: list[list[Any]] = []
        self.extremes: dict[str, list[int]] = {}
        self.count, self.reasons = 0, 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._record, daemon=True)

    def __enter__(self) -> SensorRecorder:  # noqa: PYI034 - Python 3.9 has no Self
        """Start reading."""
        if self.sensors:
            self.started = time.monotonic()
            self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop reading."""
        self.stopped.set()
        if self.sensors:
            self.thread.join(10)

    def _record(self) -> None:
        while self.sensors and not self.stopped.wait(self.interval_s):
            sample = self.sensors.read_sample()
            self.count += 1
            for name, value in zip(COLUMNS, sample):  # noqa: B905 - Python 3.9
                if value is not None:
                    low, high = self.extremes.get(name, (value, value))
                    self.extremes[name] = [min(low, value), max(high, value)]
            reasons = sample[COLUMNS.index(REASONS)]
            self.reasons |= reasons or 0
            self.samples.append([round(time.monotonic() - self.started, 2), *sample])
            if len(self.samples) >= MAX_SAMPLES:
                self.samples = self.samples[::2]
                self.interval_s *= 2

    def build_record(self) -> dict[str, Any]:
        """Return the series for the attempt's record."""
        return {
            "columns": ["seconds", *COLUMNS],
            "samples": self.samples,
            "count": self.count,
            "extremes": self.extremes,
            "event_reasons_seen": self.reasons,
        }
