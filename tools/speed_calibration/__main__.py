"""Fit factors and intervals and write their data files, and the errors of cross-validation.

``python -m tools.speed_calibration`` takes one or two minutes of one processor.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from gpufleet.sizing.data_file import DATA_DIR
from tools.speed_calibration.cross_validation import cross_validate_speed, fit_speed_intervals
from tools.speed_calibration.fit import fit_efficiency_factors, group_measurement_indexes_by_factor
from tools.speed_calibration.measurement import load_speed_measurements
from tools.speed_calibration.report import format_calibration_report

MIN_DEPARTURE = 0.005  # factors closer to one are dropped


def main() -> None:
    """Write efficiency.csv, intervals.csv and held_out.csv, and print the cross-validation errors."""
    rows = [row for row in load_speed_measurements() if row.is_predictable]
    today = datetime.now(UTC).date().isoformat()
    factors, counts = fit_efficiency_factors(rows).factors, group_measurement_indexes_by_factor(rows)
    significant = {
        key: value
        for key, value in factors.items()
        if key[1:] == ("*", "*") or abs(value - 1) > MIN_DEPARTURE
    }
    lines = [
        [*key, f"{value:.5g}", str(len(counts.get(key, ()))), today]
        for key, value in sorted(significant.items())
    ]
    _write_csv("efficiency.csv", ["parameter", "device", "engine", "value", "measurements", "fitted"], lines)
    predictions = cross_validate_speed(rows)
    held_out = [[each.row.measurement_id, f"{each.log_error:.4f}"] for each in predictions]
    _write_csv("held_out.csv", ["id", "log_error"], held_out, Path(__file__).parent)
    intervals = fit_speed_intervals(predictions)
    bounds = [
        [*key, f"{interval.low:.4f}", f"{interval.high:.4f}", str(n), today]
        for key, (interval, n) in sorted(intervals.items())
    ]
    _write_csv("intervals.csv", ["metric", "regime", "low", "high", "measurements", "fitted"], bounds)
    sys.stdout.write(format_calibration_report(predictions))


def _write_csv(name: str, header: list[str], lines: Sequence[Sequence[str]], folder: Path = DATA_DIR) -> None:
    with (folder / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *lines])


if __name__ == "__main__":
    main()
