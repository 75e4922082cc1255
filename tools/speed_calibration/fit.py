"""Least squares with priors: efficiency factors from published measurements.

Every parameter has a prior; classes and engines depart from it only as far as measurements require.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, log

from gpufleet.sizing.speed.efficiency import ANY, EfficiencyFactors, Key, find_engine_group
from tools.speed_calibration.least_squares import solve_damped_least_squares
from tools.speed_calibration.measurement import SpeedMeasurement
from tools.speed_calibration.prior import LINK_SECONDS, LINK_SHARES, PRIORS

NOISE = 0.12  # assumption: relative noise of a published figure from unstated settings
OUTLIER_ERROR = 3 * NOISE  # larger errors count less: probably another setting was measured
MAX_ROUNDS = 15
PERTURBATION = 1e-3
CONVERGED_GAIN = 1e-3  # a smaller relative gain ends the search

Slopes = dict[
    SpeedMeasurement, dict[Key, float]
]  # derivative of its error by the logarithm of each parameter


@dataclass(frozen=True)
class EfficiencyFitProblem:
    """The fit: measurements, prior factors, and the rows that each factor affects."""

    rows: Sequence[SpeedMeasurement]
    start: dict[Key, float]
    rows_by_factor: dict[Key, list[int]]
    base_factors: list[list[Key]]

    def efficiency_factors_at(self, point: dict[Key, float]) -> EfficiencyFactors:
        """Return the factors at a point (logarithms of departures from the prior)."""
        factors = dict(self.start)
        for key, value in point.items():
            factors[key] = factors.get(key, 1.0) * exp(value)
        return EfficiencyFactors(factors)

    def log_prediction_errors_at(self, point: dict[Key, float]) -> list[float]:
        """Return the logarithm of predicted over published, by measurement."""
        efficiency = self.efficiency_factors_at(point)
        return [row.log_prediction_error(efficiency) or 0.0 for row in self.rows]


def fit_efficiency_factors(
    rows: Sequence[SpeedMeasurement], initial: EfficiencyFactors | None = None, slopes: Slopes | None = None
) -> EfficiencyFactors:
    """Return the factors with the least squared errors and prior penalties.

    ``initial`` is the starting point and does not change the solution. ``slopes`` are the derivatives there; if given,
    they are used for the complete search.
    """
    base_factors = _base_factors(rows)
    problem = EfficiencyFitProblem(
        rows, prior_efficiency_factors(), _rows_by_factor(rows, base_factors), base_factors
    )
    point = {key: _log_departure(initial, problem.start, key) for key in problem.rows_by_factor}
    errors = problem.log_prediction_errors_at(point)
    loss, damping = _total_loss(errors, point), 1.0
    current_slopes = slopes or compute_error_slopes(rows, problem.efficiency_factors_at(point))
    for _ in range(MAX_ROUNDS):
        step = _solve_step(problem, point, errors, current_slopes, damping)
        next_point = {key: point[key] + step[key] for key in point}
        next_errors = problem.log_prediction_errors_at(next_point)
        gain = loss - _total_loss(next_errors, next_point)
        if gain > 0:
            point, errors, loss, damping = next_point, next_errors, loss - gain, damping / 4
            current_slopes = slopes or compute_error_slopes(rows, problem.efficiency_factors_at(point))
        else:
            damping *= 4
        if 0 <= gain < CONVERGED_GAIN * loss:
            break
    return problem.efficiency_factors_at(point)


def prior_efficiency_factors() -> dict[Key, float]:
    """Return the prior value of each parameter."""
    start: dict[Key, float] = {(p, ANY, ANY): prior.value for p, prior in PRIORS.items()}
    link_parameters = [p for p, prior in PRIORS.items() if prior.links]
    of_links = {p: LINK_SHARES if p.endswith("_share") else LINK_SECONDS for p in link_parameters}
    return start | {(p, link, ANY): value for p in link_parameters for link, value in of_links[p].items()}


def group_measurement_indexes_by_factor(rows: Sequence[SpeedMeasurement]) -> dict[Key, list[int]]:
    """Return the rows that each factor affects; a factor with the same rows as a wider one is left out."""
    return _rows_by_factor(rows, _base_factors(rows))


def _rows_by_factor(rows: Sequence[SpeedMeasurement], base_factors: list[list[Key]]) -> dict[Key, list[int]]:
    rows_of_factor: dict[Key, list[int]] = {}
    for parameter, prior in PRIORS.items():
        seen: set[tuple[int, ...]] = set()
        for key in _candidate_factors(rows, parameter, links=prior.links, common_only=prior.is_shared):
            affected = [
                i
                for i, row in enumerate(rows)
                if _base_factor(key) in base_factors[i] and _applies_to(key, row)
            ]
            if affected and tuple(affected) not in seen:
                seen.add(tuple(affected))
                rows_of_factor[key] = affected
    return rows_of_factor


def _base_factors(rows: Sequence[SpeedMeasurement]) -> list[list[Key]]:
    """Return by measurement the parameters that it depends on at all."""
    return [list(_base_factors_of_row(row)) for row in rows]


@cache
def _base_factors_of_row(row: SpeedMeasurement) -> tuple[Key, ...]:
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
    if links:
        engines = sorted({find_engine_group(parameter, row.calibrated_engine) for row in rows})
        return [(parameter, link, ANY) for link in links] + [
            (parameter, k, e) for k in links for e in engines
        ]
    wide: list[Key] = [(parameter, ANY, ANY)]
    if common_only:
        return wide
    kinds = sorted({row.device_class for row in rows})
    engines = sorted({find_engine_group(parameter, row.calibrated_engine) for row in rows})
    wide += [(parameter, kind, ANY) for kind in kinds] + [(parameter, ANY, engine) for engine in engines]
    return wide + [
        (parameter, kind, engine)
        for kind, engine in sorted(
            {(row.device_class, find_engine_group(parameter, row.calibrated_engine)) for row in rows}
        )
    ]


def _applies_to(key: Key, row: SpeedMeasurement) -> bool:
    is_same_engine = key[2] in (ANY, find_engine_group(key[0], row.calibrated_engine))
    return is_same_engine and (bool(PRIORS[key[0]].links) or key[1] in (ANY, row.device_class))


def _base_factor(key: Key) -> Key:
    """Return the widest factor of the parameter: an error has the same slope for all factors of a parameter."""
    return (key[0], key[1], ANY) if PRIORS[key[0]].links else (key[0], ANY, ANY)


def _log_departure(initial: EfficiencyFactors | None, start: dict[Key, float], key: Key) -> float:
    return (
        0.0 if initial is None else log(initial.factors.get(key, start.get(key, 1.0)) / start.get(key, 1.0))
    )


def _robust_weight(error: float) -> float:
    return 1.0 / (NOISE**2 * (1.0 + (error / OUTLIER_ERROR) ** 2))


def _total_loss(errors: Sequence[float], point: dict[Key, float]) -> float:
    fit = sum((OUTLIER_ERROR / NOISE) ** 2 * log(1.0 + (error / OUTLIER_ERROR) ** 2) for error in errors)
    return fit + sum((value / _prior_spread(key)) ** 2 for key, value in point.items())


def _prior_spread(key: Key) -> float:
    parameter, kind, engine = key
    prior = PRIORS[parameter]
    if kind == ANY and engine == ANY:
        return prior.spread
    return prior.class_spread


def _solve_step(
    problem: EfficiencyFitProblem,
    point: dict[Key, float],
    errors: Sequence[float],
    slopes: Slopes,
    damping: float,
) -> dict[Key, float]:
    keys = list(point)
    entries = [
        (i, a, slopes[problem.rows[i]].get(_base_factor(key), 0.0))
        for a, key in enumerate(keys)
        for i in problem.rows_by_factor[key]
    ]
    penalties = [1.0 / _prior_spread(key) ** 2 for key in keys]
    weights = [_robust_weight(error) for error in errors]
    return dict(
        zip(
            keys,
            solve_damped_least_squares(entries, weights, errors, penalties, list(point.values()), damping),
            strict=True,
        )
    )


def compute_error_slopes(rows: Sequence[SpeedMeasurement], efficiency: EfficiencyFactors) -> Slopes:
    """Return by measurement the derivative of its error by the logarithm of each parameter."""
    perturbed = {
        base_factor: _perturb(efficiency, base_factor)
        for row in rows
        for base_factor in _base_factors_of_row(row)
    }
    slopes = {}
    for row in rows:
        error = row.log_prediction_error(efficiency) or 0.0
        slopes[row] = {
            base_factor: ((row.log_prediction_error(perturbed[base_factor]) or 0.0) - error) / PERTURBATION
            for base_factor in _base_factors_of_row(row)
        }
    return slopes
