"""What a check's record shows: metrics, what does not apply to this hardware, and why a metric is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Raw = Mapping[str, Any]


class NotApplicable:
    """This hardware has no such reading: a consumer card has no ECC counter."""


NOT_APPLICABLE = NotApplicable()
# A number, "does not apply", or as text the reason why the reading is unknown.
Reading = float | NotApplicable | str


@dataclass(frozen=True)
class CheckReadings:
    """Metrics of one check; ``display_value`` is what a report displays."""

    metrics: dict[str, float] = field(default_factory=dict)
    display_value: float | str | None = None
    unit: str = ""
    # Why nothing can be judged, when the record's content makes no sense.
    unreadable: str = ""
    # Metrics that this hardware cannot have: the only missing ones that a required threshold accepts.
    not_applicable: frozenset[str] = frozenset()
    missing_reasons: Mapping[str, str] = field(default_factory=dict)
    # What a person looks for where a metric misses its threshold: which device, how many are there.
    details: Mapping[str, str] = field(default_factory=dict)
    # What a report says of a missed threshold in place of its meaning and number: code, device and step.
    explanations: Mapping[str, str] = field(default_factory=dict)


def to_finite_number(value: Any) -> float | None:
    """Return a finite number, or None for anything else (booleans do not count)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e18 and math.isfinite(value) else None  # noqa: PLR2004 - sanity


def mapping_or_empty(value: Any) -> Raw:
    """Return a mapping, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def list_or_empty(value: Any) -> list[Any]:
    """Return a list, or an empty one."""
    return value if isinstance(value, list) else []


def drop_missing_metrics(**metrics: float | None) -> dict[str, float]:
    """Leave out what was not measured."""
    return {name: value for name, value in metrics.items() if value is not None}


def count_missing(expected: float | None, actual: float | None) -> float | None:
    """Return how many are missing against a declared number; None where none is declared."""
    return max(0.0, expected - actual) if expected and actual is not None else None


def count_missing_gpus(raw: Raw, present: int) -> float:
    """Return how many GPUs are missing against the PCI bus and the inventory; one is always expected."""
    on_bus, declared = len(list_or_empty(raw.get("on_bus"))), to_finite_number(raw.get("expect_gpus"))
    return max(0.0, max(float(on_bus), declared or 0.0, 1.0) - present)


def add_up_counts(readings: Iterable[Reading]) -> Reading:
    """Return the devices' sum: a known fault counts even if another device is unknown, a zero does not."""
    values = list(readings)
    total = sum(value for value in values if isinstance(value, float))
    unknown = next((value for value in values if isinstance(value, str)), None)
    if total or unknown is None:
        return total if total or any(isinstance(value, float) for value in values) else NOT_APPLICABLE
    return unknown


def find_lowest(readings: Iterable[Reading]) -> Reading:
    """Return the lowest known value of the devices; without one, the first reason."""
    return _choose_known(readings, min)


def find_highest(readings: Iterable[Reading]) -> Reading:
    """Return the highest known value of the devices; without one, the first reason."""
    return _choose_known(readings, max)


def _choose_known(readings: Iterable[Reading], choose: Callable[[list[float]], float]) -> Reading:
    values = list(readings)
    known = [value for value in values if isinstance(value, float)]
    if known:
        return choose(known)
    return next((value for value in values if isinstance(value, str)), NOT_APPLICABLE)


def build_check_readings(
    readings: Mapping[str, Reading], display_value: float | str | None, unit: str
) -> CheckReadings:
    """Sort readings into metrics, what does not apply, and what is unknown."""
    return CheckReadings(
        {name: value for name, value in readings.items() if isinstance(value, float)},
        display_value,
        unit,
        not_applicable=frozenset(
            name for name, value in readings.items() if isinstance(value, NotApplicable)
        ),
        missing_reasons={name: value for name, value in readings.items() if isinstance(value, str)},
    )


def explain_if_empty(readings: CheckReadings) -> CheckReadings:
    """Return readings without any metric as unreadable, with the first reason why one is missing."""
    reason = next(iter(readings.missing_reasons.values()), "")
    return CheckReadings(unreadable=reason) if reason and not readings.metrics else readings
