"""Fit the constants that cannot be derived, and measure the error on sources left out of the fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from statistics import median

from gpufleet.sizing.memory.constants import override_memory_constants
from gpufleet.sizing.memory.estimate import estimate_memory
from gpufleet.sizing.memory.result import GIB
from gpufleet.sizing.memory.weights import weight_bytes
from tools.memory_calibration.measurement import MemoryMeasurement, load_memory_measurements

CANDIDATES: dict[str, tuple[float, ...]] = {
    "activation_scale": (0.9, 0.95, 1.0, 1.05, 1.1),
    "quant_copies": (0.6, 0.7, 0.8, 0.9, 1.0),
    "workspace_gib": (0.1, 0.2, 0.3, 0.45, 0.6),
    "fragment": (0.0, 0.01, 0.02, 0.035, 0.05),
}
FIT_ROUNDS = 3
INITIAL_VALUES = {
    "activation_scale": 1.0,
    "quant_copies": 0.8,
    "workspace_gib": 0.3,
    "fragment": 0.02,
}  # where a fit starts
# Constants that are known from one source only, with their value when that source is left out.
SINGLE_SOURCE_CONSTANTS = {
    "rknn": {"rknn_runtime_mb": 0.0, "rknn_token_kb": 0.0},
    # Two sources with the same script: transformers 4.46 holds what its layers compute, 4.51 almost none of it.
    "qwen25": {"transformers_width": 2.0, "transformers_block": 2.0},
    "qwen3": {"transformers_width": 8.0, "transformers_block": 6.0},
}


@dataclass(frozen=True)
class MemoryPrediction:
    """One measurement and its prediction by constants fitted without its source."""

    row: MemoryMeasurement
    gib: float

    @property
    def relative_error(self) -> float:
        """Return the relative error."""
        return self.gib / self.row.gib - 1.0


def predict_memory_gib(row: MemoryMeasurement) -> float:
    """Return the predicted GiB of a measurement with the current constants."""
    if row.metric == "weight_file_gib":
        return weight_bytes(row.workload.model, row.workload.precision) / GIB
    return estimate_memory(row.workload, row.layout, row.hardware).per_device_gib


def fit_memory_constants(rows: Sequence[MemoryMeasurement]) -> dict[str, float]:
    """Return the values of the fitted constants with the least median error on these rows, one at a time."""
    best = dict(INITIAL_VALUES)
    for _ in range(FIT_ROUNDS):
        for name, values in CANDIDATES.items():
            best[name] = min(values, key=lambda value: _loss(rows, best | {name: value}))
    return best


def cross_validate_memory() -> list[MemoryPrediction]:
    """Return every memory measurement predicted with constants fitted without its source."""
    rows = [row for row in load_memory_measurements() if row.fits is None and not is_unusable(row)]
    predictions = []
    for group in sorted({row.group for row in rows}):
        others = [row for row in rows if row.group != group and row.metric != "weight_file_gib"]
        with override_memory_constants(
            **fit_memory_constants(others), **SINGLE_SOURCE_CONSTANTS.get(group, {})
        ):
            predictions += [
                MemoryPrediction(row, predict_memory_gib(row)) for row in rows if row.group == group
            ]
    return predictions


def is_unusable(row: MemoryMeasurement) -> bool:
    """Return whether the source of a measurement omits decisive settings: it is shown, not counted."""
    return "unusable" in row.notes


def _loss(rows: Iterable[MemoryMeasurement], values: dict[str, float]) -> float:
    with override_memory_constants(**values):
        errors = [abs(log(predict_memory_gib(row) / row.gib)) for row in rows if row.workload.is_training]
    return sum(errors) / len(errors) + median(errors) if errors else 0.0
