"""Speed of a workload: a roofline model with efficiency factors fitted to published measurements.

Input: a workload, a layout and hardware. Output: tokens per second with an 80 % interval, the limiting resource and
watts. ``python -m tools.speed_calibration`` writes the factors and intervals to data files; no measurement is
looked up.
"""

from __future__ import annotations

from gpufleet.sizing.speed.device import classify_device
from gpufleet.sizing.speed.prediction import estimate_speed
from gpufleet.sizing.speed.result import SpeedEstimate

__all__ = ["SpeedEstimate", "classify_device", "estimate_speed"]
