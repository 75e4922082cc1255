"""How fast a workload runs: a roofline of what is moved and computed, times what was learned of real engines.

In come a workload, a layout and hardware; out go tokens per second with an interval in which four of five
published measurements lie, what limits them, and watts. The factors and the interval come from data files that
``python -m gpufleet.sizing.calibration`` writes; no row of measurements is looked up.
"""

from __future__ import annotations

from gpufleet.sizing.speed.device import device_class, find_calibrated_engine, is_server_engine
from gpufleet.sizing.speed.prediction import estimate_speed
from gpufleet.sizing.speed.result import Limit, Speed

__all__ = ["Limit", "Speed", "device_class", "estimate_speed", "find_calibrated_engine", "is_server_engine"]
