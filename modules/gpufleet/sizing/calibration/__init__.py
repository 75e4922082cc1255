"""Learning from published measurements: factors of efficiency, and how far predictions are off.

In comes ``data/measured.csv``, each row with its publication; out go ``data/efficiency.csv`` and
``data/intervals.csv``, and a report of errors on publications that were left out. Nothing here runs when a
workload is sized.
"""

from __future__ import annotations

from gpufleet.sizing.calibration.cross_validation import HeldOutPrediction, cross_validate
from gpufleet.sizing.calibration.fit import fit_factors
from gpufleet.sizing.calibration.measurement import Measurement, load_measurements
from gpufleet.sizing.calibration.report import format_report

__all__ = [
    "HeldOutPrediction",
    "Measurement",
    "cross_validate",
    "fit_factors",
    "format_report",
    "load_measurements",
]
