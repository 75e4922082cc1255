"""Linear equations of the fit. Only calibration needs NumPy, sizing does not."""

from __future__ import annotations

from collections.abc import Sequence

DAMPING_SCALE = 0.02  # share of the diagonal per unit of damping (Levenberg-Marquardt)

Entry = tuple[int, int, float]  # measurement, factor, slope


def solve_damped_least_squares(  # noqa: PLR0917 - the parts of one system of equations
    entries: Sequence[Entry],
    weights: Sequence[float],
    errors: Sequence[float],
    penalties: Sequence[float],
    point: Sequence[float],
    damping: float,
) -> list[float]:
    """Return a damped least-squares step (Levenberg-Marquardt) with penalties on departures from the prior."""
    import numpy as np

    slopes = np.zeros((len(errors), len(point)))
    for row, column, slope in entries:
        slopes[row, column] = slope
    weighted = slopes * np.array(weights)[:, None]
    matrix = slopes.T @ weighted + np.diag(penalties)
    right = -(weighted.T @ np.array(errors)) - np.array(penalties) * np.array(point)
    matrix[np.diag_indices_from(matrix)] *= 1.0 + DAMPING_SCALE * damping
    step: list[float] = np.linalg.solve(matrix, right).tolist()
    return step
