"""Cross-validation: each publication is predicted by factors that were fitted without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from gpufleet.boundary import read_packaged_rows
from gpufleet.sizing.speed.efficiency import ANY, EfficiencyFactors
from gpufleet.sizing.speed.interval import UNMEASURED_WIDENING, SpeedInterval
from tools.speed_calibration.fit import EfficiencyFitProblem, Vector, build_fit_problem, fit_point
from tools.speed_calibration.measurement import SpeedMeasurement

MIN_ROWS = 10  # fewest measurements of a class for its own interval
MIN_PUBLICATIONS = 4  # fewest publications of those measurements
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
    problem = build_fit_problem(rows)
    point = fit_point(problem)
    slopes = problem.slopes_at(point)
    predictions = []
    for group in sorted({row.publication for row in rows}):
        factors = fit_without_publication(problem, point, slopes, group)
        held_out = [(row, row.log_prediction_error(factors)) for row in rows if row.publication == group]
        predictions += [HeldOutPrediction(row, error) for row, error in held_out if error is not None]
    return predictions


def fit_without_publication(
    problem: EfficiencyFitProblem, point: Vector, slopes: Vector, publication: str
) -> EfficiencyFactors:
    """Return the factors without that publication.

    The search begins at ``point``, the fit to all, with the slopes there, and goes on with those of the point found.
    """
    used = np.array([float(row.publication != publication) for row in problem.rows])
    near = fit_point(problem, used, point, slopes)
    return problem.factors_at(fit_point(problem, used, near, problem.slopes_at(near)))


def load_held_out_predictions(rows: Sequence[SpeedMeasurement]) -> list[HeldOutPrediction]:
    """Return the predictions of the last cross-validation, which ``python -m tools.speed_calibration`` stored."""
    by_id = {row.measurement_id: row for row in rows}
    return [
        HeldOutPrediction(by_id[stored["id"]], stored.get_number("log_error"))
        for stored in read_packaged_rows("tools.speed_calibration", "held_out.csv")
        if stored["id"] in by_id
    ]


def fit_speed_intervals(
    predictions: Sequence[HeldOutPrediction],
) -> dict[tuple[str, str], tuple[SpeedInterval, int]]:
    """Return intervals by kind of speed and regime, with their number of measurements.

    Publications differ more than the rows of one publication. So a publication's weight grows with the root of its
    rows, and intervals are widened until those fitted without a publication cover the target share of its rows.
    """
    intervals: dict[tuple[str, str], tuple[SpeedInterval, int]] = {}
    for metric in sorted({prediction.row.regime[0] for prediction in predictions}):
        subset = [prediction for prediction in predictions if prediction.row.regime[0] == metric]
        widening = _widening_by_class(subset)
        for kind, (bounds, n) in _class_intervals(subset).items():
            intervals[metric, kind] = (_include_prediction(bounds.widen(widening[kind])), n)
    return intervals


def check_interval_coverage(predictions: Sequence[HeldOutPrediction]) -> dict[str, bool]:
    """Return by measurement id whether the interval fitted to the other publications covers it."""
    covered: dict[str, bool] = {}
    for metric in {prediction.row.regime[0] for prediction in predictions}:
        subset = [prediction for prediction in predictions if prediction.row.regime[0] == metric]
        intervals, widening = _intervals_without_group(subset), _widening_by_class(subset)
        for prediction in subset:
            bounds, kind = intervals[prediction.row.publication], prediction.row.regime[1]
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
    for kind in [ANY, *sorted({prediction.row.regime[1] for prediction in predictions})]:
        subset = _select_class(predictions, kind)
        publications = {prediction.row.publication for prediction in subset}
        if kind == ANY or (len(subset) >= MIN_ROWS and len(publications) >= MIN_PUBLICATIONS):
            intervals[kind] = (_error_interval(subset), len(subset))
    return intervals


def _select_class(predictions: Sequence[HeldOutPrediction], kind: str) -> list[HeldOutPrediction]:
    return [prediction for prediction in predictions if kind in (ANY, prediction.row.regime[1])]


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
