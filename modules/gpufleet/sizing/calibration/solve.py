"""Linear equations of the fit. NumPy is wanted here only, when factors are learned anew, never when sizing."""

from __future__ import annotations


def solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Return the solution of a symmetric positive-definite system."""
    import numpy as np

    found: list[float] = np.linalg.solve(np.array(matrix), np.array(right)).tolist()
    return found
