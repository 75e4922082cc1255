"""Cross-validation: each publication is predicted by factors that were fitted without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from gpufleet.sizing.speed.efficiency import ANY
from gpufleet.sizing.speed.interval import UNMEASURED_WIDENING, SpeedInterval
from tools.speed_calibration.fit import compute_error_slopes, fit_efficiency_factors
from tools.speed_calibration.measurement import SpeedMeasurement

MIN_ROWS = 10  # fewest measurements of a class for its own interval
MIN_PUBLICATIONS = 6  # fewest publications of those measurements
TARGET_COVERAGE, MIN_COVERAGE = 0.80, 0.70  # share of rows and publications inside: their mean, and each
MIN_WIDENING, WIDENING_STEPS = 0.25, 75  # intervals are widened in steps of 0.05
MIN_HALF_WIDTH = 0.05


@dataclass(frozen=True)
class HeldOutPrediction:
    """A measurement and the logarithm of predicted over published, with its publication left out of the fit."""

    row: SpeedMeasurement
    log_error: float

    @property
    def absolute_relative_error(self) -> float:
        """Return the absolute relative error."""
        return abs(exp(self.log_error) - 1.0)


def cross_validate_speed(rows: Sequence[SpeedMeasurement]) -> list[HeldOutPrediction]:
    """Return every measurement's prediction with its publication left out."""
    predictions = []
    initial = fit_efficiency_factors(rows)
    slopes = compute_error_slopes(rows, initial)
    for group in sorted({row.publication for row in rows}):
        factors = fit_efficiency_factors([row for row in rows if row.publication != group], initial, slopes)
        errors = [(row, row.log_prediction_error(factors)) for row in rows if row.publication == group]
        predictions += [HeldOutPrediction(row, error) for row, error in errors if error is not None]
    return predictions


def fit_speed_intervals(
    predictions: Sequence[HeldOutPrediction],
) -> dict[tuple[str, str], tuple[SpeedInterval, int]]:
    """Return intervals by metric and device class, with their number of measurements.

    Publications differ more than the rows of one publication. So a publication's weight grows with the root of its
    rows, and intervals are widened until those fitted without a publication cover the target share of its rows.
    """
    intervals: dict[tuple[str, str], tuple[SpeedInterval, int]] = {}
    for metric in sorted({prediction.row.metric_kind for prediction in predictions}):
        subset = [prediction for prediction in predictions if prediction.row.metric_kind == metric]
        widening = _widening_by_class(subset)
        for kind, (bounds, n) in _class_intervals(subset).items():
            intervals[metric, kind] = (_include_prediction(bounds.widen(widening[kind])), n)
    return intervals


def check_interval_coverage(predictions: Sequence[HeldOutPrediction]) -> dict[str, bool]:
    """Return by measurement id whether the interval fitted to the other publications covers it."""
    covered: dict[str, bool] = {}
    for metric in {prediction.row.metric_kind for prediction in predictions}:
        subset = [prediction for prediction in predictions if prediction.row.metric_kind == metric]
        intervals, widening = _intervals_without_group(subset), _widening_by_class(subset)
        for prediction in subset:
            bounds, kind = intervals[prediction.row.publication], prediction.row.regime
            class_interval = bounds[kind].widen(widening[kind]) if kind in bounds else None
            pooled = bounds[ANY].widen(widening[ANY])
            covered[prediction.row.measurement_id] = _contains(
                class_interval
                or SpeedInterval(pooled.low / UNMEASURED_WIDENING, pooled.high * UNMEASURED_WIDENING),
                prediction,
            )
    return covered


def _widening_by_class(predictions: Sequence[HeldOutPrediction]) -> dict[str, float]:
    """Return the widening of each class."""
    intervals = _intervals_without_group(predictions)
    return {
        kind: _find_widening(_select_class(predictions, kind), intervals, kind)
        for kind in _class_intervals(predictions)
    }


def _intervals_without_group(predictions: Sequence[HeldOutPrediction]) -> dict[str, dict[str, SpeedInterval]]:
    """Return by publication the intervals fitted to the other publications."""
    intervals = {}
    for group in {prediction.row.publication for prediction in predictions}:
        other_predictions = [prediction for prediction in predictions if prediction.row.publication != group]
        intervals[group] = {
            kind: _error_interval(_select_class(other_predictions, kind))
            for kind in _class_intervals(predictions)
        }
    return intervals


def _find_widening(
    predictions: Sequence[HeldOutPrediction], intervals: dict[str, dict[str, SpeedInterval]], kind: str
) -> float:
    for step in range(WIDENING_STEPS):
        widening = MIN_WIDENING + step / 20
        inside: dict[str, list[bool]] = {}
        for prediction in predictions:
            bounds = intervals[prediction.row.publication]
            inside.setdefault(prediction.row.publication, []).append(
                _contains(bounds[kind].widen(widening), prediction)
            )
        rows = sum(map(sum, inside.values())) / len(predictions)
        publications = sum(sum(subset) / len(subset) for subset in inside.values()) / len(inside)
        if (rows + publications) / 2 >= TARGET_COVERAGE and min(rows, publications) >= MIN_COVERAGE:
            return widening
    return MIN_WIDENING + WIDENING_STEPS / 20


def _contains(bounds: SpeedInterval, prediction: HeldOutPrediction) -> bool:
    interval = _include_prediction(bounds)
    return interval.low <= exp(-prediction.log_error) <= interval.high


def _include_prediction(bounds: SpeedInterval) -> SpeedInterval:
    """Return an interval that includes the prediction itself with a margin."""
    return SpeedInterval(min(bounds.low, 1.0 - MIN_HALF_WIDTH), max(bounds.high, 1.0 + MIN_HALF_WIDTH))


def _class_intervals(predictions: Sequence[HeldOutPrediction]) -> dict[str, tuple[SpeedInterval, int]]:
    intervals = {}
    for kind in [ANY, *sorted({prediction.row.regime for prediction in predictions})]:
        subset = _select_class(predictions, kind)
        publications = {prediction.row.publication for prediction in subset}
        if kind == ANY or (len(subset) >= MIN_ROWS and len(publications) >= MIN_PUBLICATIONS):
            intervals[kind] = (_error_interval(subset), len(subset))
    return intervals


def _select_class(predictions: Sequence[HeldOutPrediction], kind: str) -> list[HeldOutPrediction]:
    return [prediction for prediction in predictions if kind in (ANY, prediction.row.regime)]


def _error_interval(predictions: Sequence[HeldOutPrediction]) -> SpeedInterval:
    rows = Counter(prediction.row.publication for prediction in predictions)
    weighted_errors = sorted(
        (-prediction.log_error, rows[prediction.row.publication] ** -0.5) for prediction in predictions
    )
    tail = (1.0 - TARGET_COVERAGE) / 2
    return SpeedInterval(
        exp(weighted_quantile(weighted_errors, tail)), exp(weighted_quantile(weighted_errors, 1.0 - tail))
    )


def weighted_quantile(weighted_values: Sequence[tuple[float, float]], share: float) -> float:
    """Return the weighted quantile with linear interpolation."""
    total = sum(weight for _, weight in weighted_values)
    before, last = 0.0, None
    for value, weight in weighted_values:
        middle = (before + weight / 2) / total
        if middle >= share:
            if last is None:
                return value
            return last[0] + (value - last[0]) * (share - last[1]) / (middle - last[1])
        before, last = before + weight, (value, middle)
    return weighted_values[-1][0]


def quantile(sorted_values: Sequence[float], share: float) -> float:
    """Return the quantile of sorted values with linear interpolation."""
    place = share * (len(sorted_values) - 1)
    below = min(int(place), len(sorted_values) - 2) if len(sorted_values) > 1 else 0
    above = min(below + 1, len(sorted_values) - 1)
    return sorted_values[below] + (sorted_values[above] - sorted_values[below]) * (place - below)
