"""Print cross-validation errors of speeds, and errors of other formulas on the same rows.

Then the time of ``gpufleet size`` over all hardware as a complete process.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tools.speed_calibration import (
    HeldOutPrediction,
    cross_validate_speed,
    format_calibration_report,
    load_speed_measurements,
)
from tools.speed_calibration.cross_validation import quantile

sys.path.insert(0, str(Path(__file__).parent))
from speed_formulas import FORMULAS

METRICS = ("decode", "throughput", "prefill", "training")
GOALS = {"decode": (0.12, 0.35), "prefill": (0.20, None), "training": (0.20, None)}
RUNS = 5


def main() -> None:
    """Print the tables."""
    rows = [row for row in load_speed_measurements() if row.is_predictable]
    predictions = cross_validate_speed(rows)
    print("speeds: each publication predicted by factors fitted without it\n")
    print(format_calibration_report(predictions))
    for metric, (middle, far) in GOALS.items():
        print(f"goal, {metric}: median at most {middle:.0%}{f', p90 at most {far:.0%}' if far else ''}")
    print("goal, intervals: 70 to 90 % of the measurements inside\n")
    initial_rows = [prediction for prediction in predictions if prediction.row.measurement_id.startswith("M")]
    print("the rows that the fit began with alone, still without their own publications\n")
    print(format_calibration_report(initial_rows))
    _print_other_formulas(predictions)
    _process()


def _print_other_formulas(predictions: Sequence[HeldOutPrediction]) -> None:
    print("on the same rows, median and p90 of what is off")
    print(f"{'':12}{'n':>4}{'gpufleet':>18}" + "".join(f"{name:>24}" for name in FORMULAS))
    for metric in METRICS:
        part = [prediction for prediction in predictions if prediction.row.metric_kind == metric]
        cells = [_format_error_pair([prediction.absolute_relative_error for prediction in part])]
        for formula in FORMULAS.values():
            answers = [
                (formula(prediction.row), prediction.row.published_tokens_per_s) for prediction in part
            ]
            cells.append(
                _format_error_pair([abs(value / speed - 1) for value, speed in answers if value is not None])
            )
        print(f"{metric:12}{len(part):4}{cells[0]:>18}" + "".join(f"{cell:>24}" for cell in cells[1:]))


def _format_error_pair(errors: list[float]) -> str:
    ordered = sorted(errors)
    return f"{quantile(ordered, 0.5):.1%} {quantile(ordered, 0.9):.1%}" if ordered else "has no answer"


def _process() -> None:
    command = [str(Path(sys.executable).parent / "gpufleet"), "size", "--model", "llama-3.1-8b"]
    print("\nwhole process over all hardware, median of", RUNS)
    for extra in ([], ["--json"]):
        seconds = median(_measure_command([*command, *extra]) for _ in range(RUNS))
        print(f"  gpufleet size {' '.join(extra):8}{seconds:6.2f} s")


def _measure_command(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
