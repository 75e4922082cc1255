"""Errors that count: each publication predicted by factors that were fitted without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from gpufleet.sizing.calibration.fit import fitted, slopes_at
from gpufleet.sizing.calibration.measurement import Measurement
from gpufleet.sizing.speed.efficiency import ANY
from gpufleet.sizing.speed.interval import WIDER, Interval

ENOUGH = 10  # measurements of a class for an interval of its own
PUBLICATIONS = 6  # that they come from at least
INSIDE, FEWEST = 0.80, 0.70  # of rows and of publications: both together, and either
LEAST, STEPS = 0.25, 75  # of a twentieth each, in which intervals are stretched or shrunk
NARROWEST = 0.05


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
    slopes = slopes_at(rows, near)
    for group in sorted({row.group for row in rows}):
        factors = fitted([row for row in rows if row.group != group], near, slopes)
        errors = [(row, row.error(factors)) for row in rows if row.group == group]
        found += [Held(row, error) for row, error in errors if error is not None]
    return found


def learned_intervals(held: Sequence[Held]) -> dict[tuple[str, str], tuple[Interval, int]]:
    """Return bounds by kind of speed and class of device, and on how many measurements each rests.

    Publications differ more than rows of one do: rows of one share their vote (it grows with the root of their
    number), and bounds are stretched until those learned from the others hold the wanted share of the rows and of
    the publications left out.
    """
    found: dict[tuple[str, str], tuple[Interval, int]] = {}
    for metric in sorted({each.row.metric for each in held}):
        part = [each for each in held if each.row.metric == metric]
        stretch = _stretches(part)
        for kind, (bounds, n) in _plain(part).items():
            found[metric, kind] = (_holding_one(bounds.stretched(stretch[kind])), n)
    return found


def covered(held: Sequence[Held]) -> dict[str, bool]:
    """Return by measurement whether it lies in the interval that the other publications' errors give."""
    found: dict[str, bool] = {}
    for metric in {each.row.metric for each in held}:
        part = [each for each in held if each.row.metric == metric]
        without, stretch = _without(part), _stretches(part)
        for each in part:
            bounds, kind = without[each.row.group], each.row.kind
            own = bounds[kind].stretched(stretch[kind]) if kind in bounds else None
            pooled = bounds[ANY].stretched(stretch[ANY])
            found[each.row.id] = _holds(own or Interval(pooled.low / WIDER, pooled.high * WIDER), each)
    return found


def _stretches(held: Sequence[Held]) -> dict[str, float]:
    """Return by class how far its bounds are stretched."""
    without = _without(held)
    return {kind: _stretch(_of(held, kind), without, kind) for kind in _plain(held)}


def _without(held: Sequence[Held]) -> dict[str, dict[str, Interval]]:
    """Return by publication the bounds that the other publications give."""
    found = {}
    for group in {each.row.group for each in held}:
        rest = [each for each in held if each.row.group != group]
        found[group] = {kind: _bounds(_of(rest, kind)) for kind in _plain(held)}
    return found


def _stretch(held: Sequence[Held], without: dict[str, dict[str, Interval]], kind: str) -> float:
    for step in range(STEPS):
        stretch = LEAST + step / 20
        inside: dict[str, list[bool]] = {}
        for each in held:
            bounds = without[each.row.group]
            inside.setdefault(each.row.group, []).append(_holds(bounds[kind].stretched(stretch), each))
        rows = sum(map(sum, inside.values())) / len(held)
        publications = sum(sum(part) / len(part) for part in inside.values()) / len(inside)
        if (rows + publications) / 2 >= INSIDE and min(rows, publications) >= FEWEST:
            return stretch
    return LEAST + STEPS / 20


def _holds(bounds: Interval, each: Held) -> bool:
    kept = _holding_one(bounds)
    return kept.low <= exp(-each.error) <= kept.high


def _holding_one(bounds: Interval) -> Interval:
    """Return bounds with the prediction itself well inside, whichever way it was off."""
    return Interval(min(bounds.low, 1.0 - NARROWEST), max(bounds.high, 1.0 + NARROWEST))


def _plain(held: Sequence[Held]) -> dict[str, tuple[Interval, int]]:
    found = {}
    for kind in [ANY, *sorted({each.row.kind for each in held})]:
        part = _of(held, kind)
        publications = {each.row.group for each in part}
        if kind == ANY or (len(part) >= ENOUGH and len(publications) >= PUBLICATIONS):
            found[kind] = (_bounds(part), len(part))
    return found


def _of(held: Sequence[Held], kind: str) -> list[Held]:
    return [each for each in held if kind in (ANY, each.row.kind)]


def _bounds(held: Sequence[Held]) -> Interval:
    rows = Counter(each.row.group for each in held)
    votes = sorted((-each.error, rows[each.row.group] ** -0.5) for each in held)
    tail = (1.0 - INSIDE) / 2
    return Interval(exp(weighted(votes, tail)), exp(weighted(votes, 1.0 - tail)))


def weighted(votes: Sequence[tuple[float, float]], share: float) -> float:
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
