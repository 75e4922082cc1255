"""Accuracy of the memory model: errors on sources left out of the fit, and published out-of-memory reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

from gpufleet.sizing.memory.estimate import estimate_memory
from tools.memory_calibration.fit import MemoryPrediction, cross_validate_memory
from tools.memory_calibration.measurement import MemoryMeasurement, load_memory_measurements

MIN_CLASS_ROWS = 10  # classes with fewer rows are pooled
Formula = Callable[
    [MemoryMeasurement], float | None
]  # GiB on one device, None where the formula has no answer


@dataclass(frozen=True)
class ErrorSummary:
    """Median and 90th percentile of the absolute relative error of one class or formula."""

    name: str
    rows: int
    median: float
    p90: float


@dataclass(frozen=True)
class OutOfMemoryComparison:
    """A published report that a run fitted or ran out of memory, and the estimate for its settings."""

    id: str
    reported: bool
    predicted: bool
    gib: float
    usable_gib: float
    source: str

    @property
    def is_prediction_correct(self) -> bool:
        """True if the estimate agrees with the report."""
        return self.reported == self.predicted


def build_memory_accuracy_report(
    formulas: dict[str, Formula] | None = None,
) -> tuple[list[ErrorSummary], list[OutOfMemoryComparison]]:
    """Return errors by device class and in total, errors of other formulas on the same rows, and fit reports."""
    predictions = cross_validate_memory()
    lines = [
        _error_line(name, [p.relative_error for p in group])
        for name, group in _group_by_class(predictions).items()
    ]
    lines.append(_error_line("all", [p.relative_error for p in predictions]))
    for name, formula in (formulas or {}).items():
        answers = [(formula(p.row), p.row.gib) for p in predictions]
        lines.append(
            _error_line(
                name, [predicted / measured - 1.0 for predicted, measured in answers if predicted is not None]
            )
        )
    return lines, compare_out_of_memory_reports()


def compare_out_of_memory_reports() -> list[OutOfMemoryComparison]:
    """Return every published report with its estimate; a published peak means that the run fitted."""
    lines = []
    for row in load_memory_measurements():
        if row.metric != "weight_file_gib":
            estimate = estimate_memory(row.workload, row.layout, row.hardware)
            reported_fit = row.fits is None or row.fits
            lines.append(
                OutOfMemoryComparison(
                    row.id,
                    reported_fit,
                    estimate.fits,
                    estimate.per_device_gib,
                    estimate.usable_gib,
                    row.source,
                )
            )
    return lines


def nearest_rank_quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def _group_by_class(predictions: list[MemoryPrediction]) -> dict[str, list[MemoryPrediction]]:
    groups: dict[str, list[MemoryPrediction]] = {}
    for prediction in predictions:
        groups.setdefault(prediction.row.device_class, []).append(prediction)
    large = {name: group for name, group in groups.items() if len(group) >= MIN_CLASS_ROWS}
    small = [p for name, group in groups.items() if name not in large for p in group]
    return large | ({"others, pooled": small} if small else {})


def _error_line(name: str, errors: Sequence[float]) -> ErrorSummary:
    absolute = [abs(error) for error in errors]
    if not absolute:
        return ErrorSummary(name, 0, float("nan"), float("nan"))
    return ErrorSummary(name, len(absolute), median(absolute), nearest_rank_quantile(absolute, 0.9))
