"""Linear equations, solved in plain Python: the fit has some eighty unknowns and needs no library."""

from __future__ import annotations


def solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Return the solution of a symmetric positive-definite system by Cholesky's factorisation."""
    size = len(right)
    lower = [[0.0] * size for _ in range(size)]
    for i in range(size):
        row = lower[i]
        for j in range(i + 1):
            other = lower[j]
            rest = matrix[i][j] - sum(row[k] * other[k] for k in range(j))
            row[j] = rest**0.5 if i == j else rest / other[j]
    return _backward(lower, _forward(lower, right))


def _forward(lower: list[list[float]], right: list[float]) -> list[float]:
    found: list[float] = []
    for i, value in enumerate(right):
        found.append((value - sum(lower[i][k] * found[k] for k in range(i))) / lower[i][i])
    return found


def _backward(lower: list[list[float]], right: list[float]) -> list[float]:
    size = len(right)
    found = [0.0] * size
    for i in reversed(range(size)):
        rest = right[i] - sum(lower[k][i] * found[k] for k in range(i + 1, size))
        found[i] = rest / lower[i][i]
    return found
