"""Calibration: fit efficiency factors and prediction intervals to published measurements.

Input: ``data/measured.csv``, each row with its publication. Output: ``data/efficiency.csv``, ``data/intervals.csv``
and a report of cross-validation errors. Sizing itself does not run this package.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small matrices: threads cost more than they save

from tools.speed_calibration.cross_validation import HeldOutPrediction, cross_validate_speed
from tools.speed_calibration.fit import fit_efficiency_factors
from tools.speed_calibration.measurement import SpeedMeasurement, load_speed_measurements
from tools.speed_calibration.report import format_calibration_report

__all__ = [
    "HeldOutPrediction",
    "SpeedMeasurement",
    "cross_validate_speed",
    "fit_efficiency_factors",
    "format_calibration_report",
    "load_speed_measurements",
]
