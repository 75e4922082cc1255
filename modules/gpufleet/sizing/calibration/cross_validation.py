"""Errors that count: each publication predicted by factors that were fitted without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from gpufleet.sizing.calibration.fit import compute_slopes, fit_factors
from gpufleet.sizing.calibration.measurement import Measurement
from gpufleet.sizing.speed.efficiency import ANY
from gpufleet.sizing.speed.interval import UNMEASURED_WIDENING, Interval

MIN_ROWS = 10  # measurements of a class for an interval of its own
MIN_PUBLICATIONS = 6  # that they come from at least
TARGET_COVERAGE, MIN_COVERAGE = 0.80, 0.70  # of rows and of publications: both together, and either
MIN_WIDENING, WIDENING_STEPS = 0.25, 75  # of a twentieth each, in which intervals are stretched or shrunk
MIN_HALF_WIDTH = 0.05


@dataclass(frozen=True)
class HeldOutPrediction:
    """One measurement and the logarithm of predicted over published, its publication left out of the fit."""

    row: Measurement
    error: float

    @property
    def relative_error(self) -> float:
        """Return how far off the prediction is, as a share of what was published."""
        return abs(exp(self.error) - 1.0)


def cross_validate(rows: Sequence[Measurement]) -> list[HeldOutPrediction]:
    """Return every measurement's error with its whole publication left out."""
    found = []
    near = fit_factors(rows)
    slopes = compute_slopes(rows, near)
    for group in sorted({row.group for row in rows}):
        factors = fit_factors([row for row in rows if row.group != group], near, slopes)
        errors = [(row, row.log_error(factors)) for row in rows if row.group == group]
        found += [HeldOutPrediction(row, error) for row, error in errors if error is not None]
    return found


def fit_intervals(held: Sequence[HeldOutPrediction]) -> dict[tuple[str, str], tuple[Interval, int]]:
    """Return bounds by kind of speed and class of device, and on how many measurements each rests.

    Publications differ more than rows of one do: rows of one share their vote (it grows with the root of their
    number), and bounds are stretched until those learned from the others hold the wanted share of the rows and of
    the publications left out.
    """
    found: dict[tuple[str, str], tuple[Interval, int]] = {}
    for metric in sorted({each.row.metric for each in held}):
        part = [each for each in held if each.row.metric == metric]
        stretch = _widening_by_class(part)
        for kind, (bounds, n) in _class_intervals(part).items():
            found[metric, kind] = (_include_prediction(bounds.widen(stretch[kind])), n)
    return found


def find_covered_rows(held: Sequence[HeldOutPrediction]) -> dict[str, bool]:
    """Return by measurement whether it lies in the interval that the other publications' errors give."""
    found: dict[str, bool] = {}
    for metric in {each.row.metric for each in held}:
        part = [each for each in held if each.row.metric == metric]
        without, stretch = _intervals_without_group(part), _widening_by_class(part)
        for each in part:
            bounds, kind = without[each.row.group], each.row.device_class
            own = bounds[kind].widen(stretch[kind]) if kind in bounds else None
            pooled = bounds[ANY].widen(stretch[ANY])
            found[each.row.id] = _contains(
                own or Interval(pooled.low / UNMEASURED_WIDENING, pooled.high * UNMEASURED_WIDENING), each
            )
    return found


def _widening_by_class(held: Sequence[HeldOutPrediction]) -> dict[str, float]:
    """Return by class how far its bounds are stretched."""
    without = _intervals_without_group(held)
    return {kind: _find_widening(_select_class(held, kind), without, kind) for kind in _class_intervals(held)}


def _intervals_without_group(held: Sequence[HeldOutPrediction]) -> dict[str, dict[str, Interval]]:
    """Return by publication the bounds that the other publications give."""
    found = {}
    for group in {each.row.group for each in held}:
        rest = [each for each in held if each.row.group != group]
        found[group] = {kind: _error_interval(_select_class(rest, kind)) for kind in _class_intervals(held)}
    return found


def _find_widening(
    held: Sequence[HeldOutPrediction], without: dict[str, dict[str, Interval]], kind: str
) -> float:
    for step in range(WIDENING_STEPS):
        stretch = MIN_WIDENING + step / 20
        inside: dict[str, list[bool]] = {}
        for each in held:
            bounds = without[each.row.group]
            inside.setdefault(each.row.group, []).append(_contains(bounds[kind].widen(stretch), each))
        rows = sum(map(sum, inside.values())) / len(held)
        publications = sum(sum(part) / len(part) for part in inside.values()) / len(inside)
        if (rows + publications) / 2 >= TARGET_COVERAGE and min(rows, publications) >= MIN_COVERAGE:
            return stretch
    return MIN_WIDENING + WIDENING_STEPS / 20


def _contains(bounds: Interval, each: HeldOutPrediction) -> bool:
    kept = _include_prediction(bounds)
    return kept.low <= exp(-each.error) <= kept.high


def _include_prediction(bounds: Interval) -> Interval:
    """Return bounds with the prediction itself well inside, whichever way it was off."""
    return Interval(min(bounds.low, 1.0 - MIN_HALF_WIDTH), max(bounds.high, 1.0 + MIN_HALF_WIDTH))


def _class_intervals(held: Sequence[HeldOutPrediction]) -> dict[str, tuple[Interval, int]]:
    found = {}
    for kind in [ANY, *sorted({each.row.device_class for each in held})]:
        part = _select_class(held, kind)
        publications = {each.row.group for each in part}
        if kind == ANY or (len(part) >= MIN_ROWS and len(publications) >= MIN_PUBLICATIONS):
            found[kind] = (_error_interval(part), len(part))
    return found


def _select_class(held: Sequence[HeldOutPrediction], kind: str) -> list[HeldOutPrediction]:
    return [each for each in held if kind in (ANY, each.row.device_class)]


def _error_interval(held: Sequence[HeldOutPrediction]) -> Interval:
    rows = Counter(each.row.group for each in held)
    votes = sorted((-each.error, rows[each.row.group] ** -0.5) for each in held)
    tail = (1.0 - TARGET_COVERAGE) / 2
    return Interval(exp(weighted_quantile(votes, tail)), exp(weighted_quantile(votes, 1.0 - tail)))


def weighted_quantile(votes: Sequence[tuple[float, float]], share: float) -> float:
    """Return the value below which that share of the weight lies, between the middles of neighbours in proportion."""
    total = sum(weight for _, weight in votes)
    before, last = 0.0, None
    for value, weight in votes:
        middle = (before + weight / 2) / total
        if middle >= share:
            if last is None:
                return value
            return last[0] + (value - last[0]) * (share - last[1]) / (middle - last[1])
        before, last = before + weight, (value, middle)
    return votes[-1][0]


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which that share lies, between neighbours in proportion."""
    place = share * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 2) if len(ordered) > 1 else 0
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
