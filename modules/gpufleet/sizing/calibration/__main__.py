"""Fit the factors and the intervals anew and write both data files: ``python -m gpufleet.sizing.calibration``."""

from __future__ import annotations

import csv
import sys
from datetime import UTC, datetime

from gpufleet.sizing.calibration.cross_validation import held_out, learned_intervals
from gpufleet.sizing.calibration.fit import bearing, fitted
from gpufleet.sizing.calibration.measurement import measurements
from gpufleet.sizing.calibration.report import report
from gpufleet.sizing.data_file import DATA

TOO_SMALL = 0.005  # a factor nearer to one says nothing


def main() -> None:
    """Write efficiency.csv and intervals.csv, and say how far off publications left out were."""
    rows = [row for row in measurements() if row.predictable]
    today = datetime.now(UTC).date().isoformat()
    factors, counts = fitted(rows).factors, bearing(rows)
    kept = {
        key: value for key, value in factors.items() if key[1:] == ("*", "*") or abs(value - 1) > TOO_SMALL
    }
    lines = [
        [*key, f"{value:.5g}", str(len(counts.get(key, ()))), today] for key, value in sorted(kept.items())
    ]
    _write("efficiency.csv", ["parameter", "device", "engine", "value", "measurements", "fitted"], lines)
    held = held_out(rows)
    found = learned_intervals(held)
    bounds = [
        [*key, f"{it.low:.4f}", f"{it.high:.4f}", str(n), today] for key, (it, n) in sorted(found.items())
    ]
    _write("intervals.csv", ["metric", "device", "low", "high", "measurements", "fitted"], bounds)
    sys.stdout.write(report(held))


def _write(name: str, head: list[str], lines: list[list[str]]) -> None:
    with (DATA / name).open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([head, *lines])


if __name__ == "__main__":
    main()
