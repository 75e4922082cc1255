"""Calibration: fit efficiency factors and prediction intervals to published measurements.

Input: ``data/measured.csv``, each row with its publication. Output: ``data/efficiency.csv``, ``data/intervals.csv``
and a report of cross-validation errors. Sizing itself does not run this package.
"""

from __future__ import annotations

from gpufleet.sizing.calibration.cross_validation import HeldOutPrediction, cross_validate
from gpufleet.sizing.calibration.fit import fit_factors
from gpufleet.sizing.calibration.measurement import SpeedMeasurement, load_measurements
from gpufleet.sizing.calibration.report import format_report

__all__ = [
    "HeldOutPrediction",
    "SpeedMeasurement",
    "cross_validate",
    "fit_factors",
    "format_report",
    "load_measurements",
]
