"""Print errors of memory predictions against published peaks, and of other tools' formulas on the same rows."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.memory_calibration.accuracy import build_memory_accuracy_report
from tools.memory_calibration.fit import is_unusable, predict_memory_gib
from tools.memory_calibration.measurement import load_memory_measurements

sys.path.insert(0, str(Path(__file__).parent))
from formulas import FORMULAS

GOAL = (0.10, 0.30)


def main() -> None:
    lines, fits = build_memory_accuracy_report(FORMULAS)
    print("peak memory, each source predicted with constants fitted without it")
    print(f"{'':24s}{'rows':>6s}{'median':>9s}{'p90':>9s}   goal: {GOAL[0]:.0%} and {GOAL[1]:.0%}")
    for line in lines:
        print(f"{line.name:24s}{line.rows:6d}{line.median:9.1%}{line.p90:9.1%}")
    for row in filter(is_unusable, load_memory_measurements()):
        print(
            f"not counted: {row.id}  {row.gib:.1f} GiB measured, {predict_memory_gib(row):.1f} predicted; "
            f"{row.notes}  {row.source}"
        )
    right = sum(line.is_prediction_correct for line in fits)
    out = [line for line in fits if not line.reported]
    print(f"\nfits or out of memory: {right} of {len(fits)} reports right, {len(out)} of them out of memory")
    for line in fits:
        if not line.is_prediction_correct or not line.reported:
            verdict = "right" if line.is_prediction_correct else "WRONG"
            reported = "ran" if line.reported else "out of memory"
            print(
                f"  {verdict}  {line.id}  {reported}; we say {line.gib:.1f} of {line.usable_gib:.1f} GiB  {line.source}"
            )


if __name__ == "__main__":
    main()
