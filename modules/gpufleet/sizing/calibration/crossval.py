"""Errors that count: each publication predicted by factors that were fitted without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from gpufleet.sizing.calibration.fit import fitted
from gpufleet.sizing.calibration.measurement import Measurement
from gpufleet.sizing.speed.efficiency import ANY
from gpufleet.sizing.speed.interval import Interval

ENOUGH = 10  # measurements of a class for an interval of its own
INSIDE = 0.80
STEPS = 60  # of a twentieth each, in which intervals are stretched


@dataclass(frozen=True)
class Held:
    """One measurement and the logarithm of predicted over published, its publication left out of the fit."""

    row: Measurement
    error: float

    @property
    def off(self) -> float:
        """Return how far off the prediction is, as a share of what was published."""
        return abs(exp(self.error) - 1.0)


def held_out(rows: Sequence[Measurement]) -> list[Held]:
    """Return every measurement's error with its whole publication left out."""
    found = []
    near = fitted(rows)
    for group in sorted({row.group for row in rows}):
        factors = fitted([row for row in rows if row.group != group], near)
        errors = [(row, row.error(factors)) for row in rows if row.group == group]
        found += [Held(row, error) for row, error in errors if error is not None]
    return found


def learned_intervals(held: Sequence[Held]) -> dict[tuple[str, str], tuple[Interval, int]]:
    """Return bounds by kind of speed and class of device, and on how many measurements each rests.

    Publications differ more than rows of one do, so that quantiles of the rows alone are too narrow: they are
    stretched until bounds learned from the other publications hold the wanted share of each one left out.
    """
    found: dict[tuple[str, str], tuple[Interval, int]] = {}
    for metric in sorted({each.row.metric for each in held}):
        part = [each for each in held if each.row.metric == metric]
        stretch = _stretch(part)
        found |= {(metric, kind): (it.stretched(stretch), n) for kind, (it, n) in _plain(part).items()}
    return found


def covered(held: Sequence[Held]) -> dict[str, bool]:
    """Return by measurement whether it lies in the interval that the other publications' errors give."""
    found: dict[str, bool] = {}
    for metric in {each.row.metric for each in held}:
        part = [each for each in held if each.row.metric == metric]
        found |= _inside(part, _stretch(part))
    return found


def _stretch(held: Sequence[Held]) -> float:
    for step in range(STEPS):
        stretch = 1.0 + step / 20
        inside = _inside(held, stretch)
        if sum(inside.values()) >= INSIDE * len(inside):
            return stretch
    return 1.0 + STEPS / 20


def _inside(held: Sequence[Held], stretch: float) -> dict[str, bool]:
    found = {}
    for group in {each.row.group for each in held}:
        bounds = _plain([each for each in held if each.row.group != group])
        for each in (each for each in held if each.row.group == group):
            own = (bounds.get(each.row.kind) or bounds[ANY])[0].stretched(stretch)
            found[each.row.id] = own.low <= exp(-each.error) <= own.high
    return found


def _plain(held: Sequence[Held]) -> dict[str, tuple[Interval, int]]:
    found = {}
    for kind in [ANY, *sorted({each.row.kind for each in held})]:
        errors = [-each.error for each in held if kind in (ANY, each.row.kind)]
        if kind == ANY or len(errors) >= ENOUGH:
            found[kind] = (_bounds(errors), len(errors))
    return found


def _bounds(errors: Sequence[float]) -> Interval:
    ordered = sorted(errors)
    tail = (1.0 - INSIDE) / 2
    return Interval(exp(quantile(ordered, tail)), exp(quantile(ordered, 1.0 - tail)))


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which that share lies, between neighbours in proportion."""
    place = share * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 2) if len(ordered) > 1 else 0
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
