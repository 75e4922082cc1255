"""Accuracy of predicted speeds as a table by kind of speed and regime, from cross-validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.speed_calibration.cross_validation import (
    MIN_ROWS,
    HeldOutPrediction,
    check_interval_coverage,
    quantile,
)

POOLED_LABEL = "fewer than 10 each"


def format_calibration_report(predictions: Sequence[HeldOutPrediction]) -> str:
    """Return the table: n, median, 90th percentile, and the share that intervals of other publications cover."""
    covered = check_interval_coverage(predictions)
    lines = [f"{'':12}{'regime':36}{'n':>4}{'median':>9}{'p90':>9}{'in 80 %':>9}"]
    for metric in ("decode", "throughput", "serving", "prefill", "training"):
        for name, subset in _group_by_class(
            [prediction for prediction in predictions if prediction.row.regime[0] == metric]
        ):
            errors = sorted(prediction.absolute_relative_error for prediction in subset)
            share = sum(covered[prediction.row.measurement_id] for prediction in subset) / len(subset)
            figures = f"{len(subset):4}{quantile(errors, 0.5):9.1%}{quantile(errors, 0.9):9.1%}{share:9.0%}"
            lines.append(f"{metric:12}{name:36}{figures}")
    return "\n".join(lines) + "\n"


def _group_by_class(
    predictions: Sequence[HeldOutPrediction],
) -> Iterator[tuple[str, list[HeldOutPrediction]]]:
    if not predictions:
        return
    yield "all", list(predictions)
    kinds = {
        kind: [prediction for prediction in predictions if prediction.row.regime[1] == kind]
        for kind in {prediction.row.regime[1] for prediction in predictions}
    }
    yield from sorted((kind, subset) for kind, subset in kinds.items() if len(subset) >= MIN_ROWS)
    few = [prediction for subset in kinds.values() if len(subset) < MIN_ROWS for prediction in subset]
    if few:
        yield POOLED_LABEL, few
