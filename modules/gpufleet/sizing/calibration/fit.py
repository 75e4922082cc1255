"""Least squares with priors: factors of efficiency from published measurements, few and held near what is usual.

Every parameter has a usual value; classes and engines may depart from it as far as their measurements insist.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

from gpufleet.sizing.calibration.measurement import Measurement
from gpufleet.sizing.calibration.priors import LINK_SECONDS, PRIORS, Prior
from gpufleet.sizing.calibration.solve import solved
from gpufleet.sizing.speed.efficiency import ANY, Efficiency, Key

NOISE = 0.12  # of a published figure, as a share: settings that no publication states
ROUNDS = 12
NUDGE = 1e-3


def fitted(rows: Sequence[Measurement], near: Efficiency | None = None) -> Efficiency:
    """Return the factors that explain the measurements best without straying from what is usual.

    ``near`` is where to start looking; it has no say in what is found.
    """
    start = usual()
    touching = _moved(rows, start, bearing(rows))
    point = {key: 0.0 if near is None else log(near.factors.get(key, 1.0) / start.get(key, 1.0)) for key in touching}
    damping, errors = 1.0, _errors(rows, start, point)
    loss = _loss(errors, point)
    for _ in range(ROUNDS):
        step = _step(rows, start, point, touching, errors, damping)
        moved = {key: point[key] + step[key] for key in point}
        tried = _errors(rows, start, moved)
        gained = loss - _loss(tried, moved)
        if gained > 0:
            point, errors, loss, damping = moved, tried, loss - gained, damping / 4
        else:
            damping *= 4
        if 0 <= gained < 1e-4 * loss:
            break
    return _efficiency(start, point)


def usual() -> dict[Key, float]:
    """Return the value of each parameter before any measurement."""
    start: dict[Key, float] = {(p, ANY, ANY): prior.value for p, prior in PRIORS.items()}
    linked = [p for p, prior in PRIORS.items() if prior.links]
    return start | {(p, link, ANY): seconds for p in linked for link, seconds in LINK_SECONDS.items()}


def bearing(rows: Sequence[Measurement]) -> dict[Key, list[int]]:
    """Return every factor that some measurement bears on, with those measurements; equals of a wider one left out."""
    found: dict[Key, list[int]] = {}
    for parameter, prior in PRIORS.items():
        apt = [i for i, row in enumerate(rows) if prior.metrics is None or row.metric in prior.metrics]
        if prior.links:
            found |= {(parameter, link, ANY): apt for link in prior.links}
            continue
        found[parameter, ANY, ANY] = apt
        kinds, engines = {rows[i].kind for i in apt}, {rows[i].engine for i in apt}
        of_kind = {kind: [i for i in apt if rows[i].kind == kind] for kind in kinds}
        of_engine = {engine: [i for i in apt if rows[i].engine == engine] for engine in engines}
        found |= {(parameter, kind, ANY): touched for kind, touched in of_kind.items()}
        found |= {(parameter, ANY, engine): touched for engine, touched in of_engine.items()}
        for kind, engine in {(rows[i].kind, rows[i].engine) for i in apt}:
            both = [i for i in of_kind[kind] if rows[i].engine == engine]
            if len(both) < len(of_kind[kind]) and len(both) < len(of_engine[engine]):
                found[parameter, kind, engine] = both
    return {key: touched for key, touched in found.items() if touched}


def _moved(
    rows: Sequence[Measurement], start: dict[Key, float], bearing: dict[Key, list[int]]
) -> dict[Key, list[int]]:
    """Return of each factor the measurements that it really moves; a factor of none, or of one's twin, is left out."""
    point: dict[Key, float] = {}
    errors = _errors(rows, start, point)
    found: dict[Key, list[int]] = {}
    seen: set[tuple[str, tuple[int, ...]]] = set()
    for key, touched in bearing.items():
        moved = sorted(_slopes(rows, start, point, key, touched, errors))
        twin = (key[0], tuple(moved))
        if moved and twin not in seen:
            seen.add(twin)
            found[key] = moved
    return found


def _efficiency(start: dict[Key, float], point: dict[Key, float]) -> Efficiency:
    factors = dict(start)
    for key, value in point.items():
        factors[key] = factors.get(key, 1.0) * exp(value)
    return Efficiency(factors)


def _errors(rows: Sequence[Measurement], start: dict[Key, float], point: dict[Key, float]) -> list[float]:
    efficiency = _efficiency(start, point)
    return [row.error(efficiency) or 0.0 for row in rows]


def _weight(error: float) -> float:
    """Return how much a measurement counts: the farther off, the more likely something else was measured."""
    return 1.0 / (NOISE**2 * (1.0 + (error / (3 * NOISE)) ** 2))


def _loss(errors: Sequence[float], point: dict[Key, float]) -> float:
    fit = sum(4.5 * log(1.0 + (error / (3 * NOISE)) ** 2) * 2 for error in errors)
    return fit + sum((value / _spread(key)) ** 2 for key, value in point.items())


def _spread(key: Key) -> float:
    parameter, kind, engine = key
    prior: Prior = PRIORS[parameter]
    if kind == ANY and engine == ANY:
        return prior.spread
    return prior.apart if ANY in (kind, engine) else prior.apart / 2


def _step(
    rows: Sequence[Measurement], start: dict[Key, float], point: dict[Key, float],
    touching: dict[Key, list[int]], errors: Sequence[float], damping: float,
) -> dict[Key, float]:  # fmt: skip
    keys = list(point)
    slopes: list[list[tuple[int, float]]] = [[] for _ in rows]
    for a, key in enumerate(keys):
        for i, slope in _slopes(rows, start, point, key, touching[key], errors).items():
            slopes[i].append((a, slope))
    penalties = [1.0 / _spread(key) ** 2 for key in keys]
    matrix = [[0.0] * len(keys) for _ in keys]
    right = [-penalty * point[key] for penalty, key in zip(penalties, keys, strict=True)]
    for near, error in zip(slopes, errors, strict=True):
        weight = _weight(error)
        for a, slope in near:
            right[a] -= weight * slope * error
            for b, other in near:
                matrix[a][b] += weight * slope * other
    for a, penalty in enumerate(penalties):
        matrix[a][a] = (matrix[a][a] + penalty) * (1.0 + 0.02 * damping)
    return dict(zip(keys, solved(matrix, right), strict=True))


def _slopes(
    rows: Sequence[Measurement], start: dict[Key, float], point: dict[Key, float],
    key: Key, touched: Sequence[int], errors: Sequence[float],
) -> dict[int, float]:  # fmt: skip
    nudged = _efficiency(start, {**point, key: point.get(key, 0.0) + NUDGE})
    found = {i: ((rows[i].error(nudged) or 0.0) - errors[i]) / NUDGE for i in touched}
    return {i: slope for i, slope in found.items() if slope}
