"""Learning from published measurements: factors of efficiency, and how far predictions are off.

In comes ``data/measured.csv``, each row with its publication; out go ``data/efficiency.csv`` and
``data/intervals.csv``, and a report of errors on publications that were left out. Nothing here runs when a
workload is sized.
"""

from __future__ import annotations

from gpufleet.sizing.calibration.cross_validation import Held, held_out
from gpufleet.sizing.calibration.fit import fitted
from gpufleet.sizing.calibration.measurement import Measurement, measurements
from gpufleet.sizing.calibration.report import report

__all__ = ["Held", "Measurement", "fitted", "held_out", "measurements", "report"]
