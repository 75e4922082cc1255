"""Least squares with priors: efficiency factors from published measurements.

Every parameter has a prior; classes, engines and generations depart from it only as far as measurements require.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp

import numpy as np
from numpy.typing import NDArray

from gpufleet.sizing.speed.efficiency import ANY, EfficiencyFactors, Key, find_engine_group
from gpufleet.sizing.speed.engine_generation import load_engine_versions
from tools.speed_calibration.measurement import SpeedMeasurement
from tools.speed_calibration.prior import LINK_SECONDS, LINK_SHARES, PRIORS

GENERATIONS = frozenset(row["generation"] for rows in load_engine_versions().values() for row in rows)
NOISE = 0.12  # assumption: relative noise of a published figure from unstated settings
OUTLIER_ERROR = 3 * NOISE  # larger errors count less: probably another setting was measured
MAX_ROUNDS = 12
REWEIGHTINGS = 6  # solutions of one linearised problem, each with the weights of the last errors
MAX_STEP = 1.0  # of a logarithm in one round: the linearisation holds near its point
PERTURBATION = 1e-3
CONVERGED_GAIN = 1e-3  # a smaller relative gain ends the search
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class EfficiencyFitProblem:
    """The fit: measurements, factors and the rows that each factor affects.

    ``base`` is the position of each factor's widest factor among ``bases``: the error of a row has the same slope for
    all factors of a parameter. ``affects`` is rows by factors.
    """

    rows: Sequence[SpeedMeasurement]
    start: dict[Key, float]
    keys: list[Key]
    bases: list[Key]
    base: NDArray[np.int64]
    affects: NDArray[np.bool_]
    penalties: Vector

    def factors_at(self, point: Vector) -> EfficiencyFactors:
        """Return the factors at a point (logarithms of departures from the prior)."""
        factors = dict(self.start)
        for key, value in zip(self.keys, point, strict=True):
            factors[key] = factors.get(key, 1.0) * exp(value)
        return EfficiencyFactors(factors)

    def errors_at(self, point: Vector) -> Vector:
        """Return the logarithm of predicted over published, by measurement."""
        efficiency = self.factors_at(point)
        return np.array([row.log_prediction_error(efficiency) or 0.0 for row in self.rows])

    def slopes_at(self, point: Vector) -> Vector:
        """Return the derivatives of the errors by the logarithm of each factor: rows by factors."""
        efficiency, errors = self.factors_at(point), self.errors_at(point)
        perturbed = [_perturb(efficiency, base) for base in self.bases]
        positions = {base: i for i, base in enumerate(self.bases)}
        slopes = np.zeros((len(self.rows), len(self.bases)))
        for i, row in enumerate(self.rows):
            for base in _base_factors_of_row(row):
                moved = row.log_prediction_error(perturbed[positions[base]]) or 0.0
                slopes[i, positions[base]] = (moved - errors[i]) / PERTURBATION
        return slopes[:, self.base] * self.affects

    def loss(self, errors: Vector, point: Vector, used: Vector) -> float:
        """Return the loss of the used rows: squared errors that count less when large, and departures."""
        fit = (OUTLIER_ERROR / NOISE) ** 2 * np.log1p((errors / OUTLIER_ERROR) ** 2) * used
        return float(fit.sum() + (self.penalties * point**2).sum())

    def search(self, slopes: Vector, errors: Vector, point: Vector, used: Vector) -> Vector:
        """Return the best point of the problem that is linear around ``point``."""
        found: Vector = point
        expected: Vector = errors
        for _ in range(REWEIGHTINGS):
            weights = used / (NOISE**2 * (1.0 + (expected / OUTLIER_ERROR) ** 2))
            weighted = slopes * weights[:, None]
            matrix = slopes.T @ weighted + np.diag(self.penalties)
            step = np.linalg.solve(matrix, weighted.T @ (slopes @ point - errors)) - point
            found = point + np.clip(step, -MAX_STEP, MAX_STEP)
            expected = errors + slopes @ (found - point)
        return found


def build_fit_problem(rows: Sequence[SpeedMeasurement]) -> EfficiencyFitProblem:
    """Return the problem of fitting all factors to the rows."""
    affected = group_measurement_indexes_by_factor(rows)
    keys = list(affected)
    bases = sorted({_base_factor(key) for key in keys})
    affects = np.zeros((len(rows), len(keys)), dtype=bool)
    for a, key in enumerate(keys):
        affects[affected[key], a] = True
    return EfficiencyFitProblem(
        rows,
        prior_efficiency_factors(),
        keys,
        bases,
        np.array([bases.index(_base_factor(key)) for key in keys]),
        affects,
        np.array([1.0 / _prior_spread(key) ** 2 for key in keys]),
    )


def fit_point(
    problem: EfficiencyFitProblem,
    used: Vector | None = None,
    start: Vector | None = None,
    slopes: Vector | None = None,
) -> Vector:
    """Return the point with the least squared errors of the used rows (all) and prior penalties.

    ``slopes`` are the derivatives near the solution; if given, they are used for the complete search.
    """
    used = np.ones(len(problem.rows)) if used is None else used
    point = np.zeros(len(problem.keys)) if start is None else start
    errors = problem.errors_at(point)
    loss = problem.loss(errors, point, used)
    for _ in range(MAX_ROUNDS):
        current = problem.slopes_at(point) if slopes is None else slopes
        step = problem.search(current, errors, point, used) - point
        gain = 0.0
        for share in (1.0, 0.5, 0.2):
            tried = point + share * step
            tried_errors = problem.errors_at(tried)
            gain = loss - problem.loss(tried_errors, tried, used)
            if gain > 0:
                point, errors, loss = tried, tried_errors, loss - gain
                break
        if gain < CONVERGED_GAIN * loss:
            break
    return point


def fit_efficiency_factors(rows: Sequence[SpeedMeasurement]) -> EfficiencyFactors:
    """Return the factors with the least squared errors and prior penalties."""
    problem = build_fit_problem(rows)
    return problem.factors_at(fit_point(problem))


def prior_efficiency_factors() -> dict[Key, float]:
    """Return the prior value of each parameter."""
    start: dict[Key, float] = {(p, ANY, ANY): prior.value for p, prior in PRIORS.items()}
    link_parameters = [p for p, prior in PRIORS.items() if prior.links]
    of_links = {p: LINK_SHARES if p.endswith("_share") else LINK_SECONDS for p in link_parameters}
    return start | {(p, link, ANY): value for p in link_parameters for link, value in of_links[p].items()}


def group_measurement_indexes_by_factor(rows: Sequence[SpeedMeasurement]) -> dict[Key, list[int]]:
    """Return the rows that each factor affects; a factor with the same rows as a wider one is left out."""
    base_factors = [frozenset(_base_factors_of_row(row)) for row in rows]
    rows_of_factor: dict[Key, list[int]] = {}
    for parameter, prior in PRIORS.items():
        seen: set[tuple[int, ...]] = set()
        for key in _candidate_factors(rows, parameter, links=prior.links, common_only=prior.is_shared):
            base = _base_factor(key)
            affected = [i for i, row in enumerate(rows) if base in base_factors[i] and _applies_to(key, row)]
            if affected and tuple(affected) not in seen:
                seen.add(tuple(affected))
                rows_of_factor[key] = affected
    return rows_of_factor


@cache
def _base_factors_of_row(row: SpeedMeasurement) -> tuple[Key, ...]:
    """Return the widest factors that a measurement depends on at all."""
    efficiency = EfficiencyFactors(prior_efficiency_factors())
    error = row.log_prediction_error(efficiency) or 0.0
    parameters = [
        p for p, prior in PRIORS.items() if prior.metrics is None or row.metric_kind in prior.metrics
    ]
    base_factors = [
        base_factor
        for p in parameters
        for base_factor in ([(p, link, ANY) for link in PRIORS[p].links] or [(p, ANY, ANY)])
    ]
    return tuple(
        base_factor
        for base_factor in base_factors
        if (row.log_prediction_error(_perturb(efficiency, base_factor)) or 0.0) != error
    )


def _perturb(efficiency: EfficiencyFactors, base_factor: Key) -> EfficiencyFactors:
    return EfficiencyFactors(
        {**efficiency.factors, base_factor: efficiency.factors[base_factor] * exp(PERTURBATION)}
    )


def _candidate_factors(
    rows: Sequence[SpeedMeasurement], parameter: str, *, links: tuple[str, ...], common_only: bool
) -> list[Key]:
    engines = sorted({find_engine_group(parameter, row.calibrated_engine) for row in rows})
    if links:
        return [(parameter, link, ANY) for link in links] + [
            (parameter, k, e) for k in links for e in engines
        ]
    wide: list[Key] = [(parameter, ANY, ANY)]
    if PRIORS[parameter].generation_spread:
        wide += [
            (parameter, generation, ANY) for generation in sorted({row.generation for row in rows} - {""})
        ]
    if common_only:
        return wide
    if not PRIORS[parameter].has_device_factors:
        return wide + [(parameter, ANY, engine) for engine in engines]
    kinds = sorted({row.device_class for row in rows})
    wide += [(parameter, kind, ANY) for kind in kinds] + [(parameter, ANY, engine) for engine in engines]
    return wide + [
        (parameter, kind, engine)
        for kind, engine in sorted(
            {(row.device_class, find_engine_group(parameter, row.calibrated_engine)) for row in rows}
        )
    ]


def _applies_to(key: Key, row: SpeedMeasurement) -> bool:
    is_same_engine = key[2] in (ANY, find_engine_group(key[0], row.calibrated_engine))
    return is_same_engine and (
        bool(PRIORS[key[0]].links) or key[1] in (ANY, row.device_class, row.generation or ANY)
    )


def _base_factor(key: Key) -> Key:
    """Return the widest factor of the parameter: an error has the same slope for all factors of a parameter."""
    return (key[0], key[1], ANY) if PRIORS[key[0]].links else (key[0], ANY, ANY)


def _prior_spread(key: Key) -> float:
    parameter, kind, engine = key
    prior = PRIORS[parameter]
    if kind == ANY and engine == ANY:
        return prior.spread
    if kind in GENERATIONS:
        return prior.generation_spread
    return prior.class_spread
