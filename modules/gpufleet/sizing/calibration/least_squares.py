"""Linear equations of the fit. NumPy is wanted here only, when factors are learned anew, never when sizing."""

from __future__ import annotations

from collections.abc import Sequence

DAMPING_SCALE = 0.02  # of the diagonal, times the damping: shorter steps where longer ones did not help

Entry = tuple[int, int, float]  # measurement, factor, slope


def solve_damped(  # noqa: PLR0917 - the parts of one system of equations
    entries: Sequence[Entry],
    weights: Sequence[float],
    errors: Sequence[float],
    penalties: Sequence[float],
    point: Sequence[float],
    damping: float,
) -> list[float]:
    """Return the step towards the least sum of weighted squared errors and of penalties on the way from the start."""
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
