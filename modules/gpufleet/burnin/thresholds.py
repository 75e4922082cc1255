"""Thresholds and required checks: data with source and date, and a linter for implausible ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

from gpufleet.boundary import read_packaged_rows, read_packaged_yaml
from gpufleet.errors import InputError

KINDS = ("compute_blade", "pi_gpu_bench", "gpu_server", "cloud_vm")
REHEARSAL = "rehearsal"
BOUNDS = ("floor", "ceiling", "below", "unjudged")
# A floor outside this share of the part's peak is a slip: it can never fail a bad part, or never pass a good one.
MIN_FLOOR_SHARE, MAX_FLOOR_SHARE = 0.30, 1.00


@dataclass(frozen=True)
class Threshold:
    """One bound on one metric of one check; ``applies_to`` is a node kind, any, or the rehearsal."""

    applies_to: str
    check: str
    metric: str
    bound: str
    value: float | None
    unit: str
    on_miss: str
    absent: str
    peak: float | None
    basis: str
    meaning: str
    source: str
    date: str

    def is_met_by(self, measured: float) -> bool:
        """Return whether a measured value meets the bound."""
        if self.value is None:
            return True
        if self.bound == "floor":
            return measured >= self.value
        return measured < self.value if self.bound == "below" else measured <= self.value

    @property
    def bound_text(self) -> str:
        """Return the bound as text."""
        lead = {"floor": "at least", "ceiling": "at most", "below": "below"}.get(self.bound, "not judged")
        return f"{lead} {self.value:g} {self.unit}".rstrip() if self.value is not None else lead


@cache
def load_thresholds() -> tuple[Threshold, ...]:
    """Return every threshold we judge by."""
    return tuple(
        Threshold(
            **{**row, "value": row.get_optional_number("value"), "peak": row.get_optional_number("peak")}  # type: ignore[arg-type]
        )
        for row in read_packaged_rows("gpufleet.burnin", "data/thresholds.csv")
    )


def select_thresholds(node_kind: str, *, rehearsal: bool = False) -> tuple[Threshold, ...]:
    """Return what a node of a kind is judged by; in a rehearsal its own rows replace the kind's."""
    rows = [row for row in load_thresholds() if row.applies_to in {node_kind, "any"}]
    if not rehearsal:
        return tuple(rows)
    rehearsal_rows = [row for row in load_thresholds() if row.applies_to == REHEARSAL]
    replaced = {(row.check, row.metric) for row in rehearsal_rows}
    return (*(row for row in rows if (row.check, row.metric) not in replaced), *rehearsal_rows)


@cache
def load_required_check_table() -> dict[str, Any]:
    """Return the required checks as the data file has them."""
    table: dict[str, Any] = read_packaged_yaml("gpufleet.burnin", "data/required.yaml")
    return table


def list_required_checks(node_kind: str, profile: str, *, gpus_declared: bool = False) -> tuple[str, ...]:
    """Return the checks that a node of a kind must pass in a profile."""
    table = load_required_check_table()
    if node_kind not in table:
        raise InputError(f"unknown node kind {node_kind!r}", remedy=f"use one of {', '.join(KINDS)}")
    if profile not in table[node_kind]:
        raise InputError(
            f"unknown burn-in profile {profile!r}", remedy=f"use one of {', '.join(table[node_kind])}"
        )
    entry = table[node_kind][profile]
    return (*entry["required"], *(entry.get("where_declared", ()) if gpus_declared else ()))


def lint_thresholds(rows: tuple[Threshold, ...] | None = None) -> list[str]:
    """Return what is wrong with thresholds: implausible floors, missing source, date, unit or peak."""
    thresholds = load_thresholds() if rows is None else rows
    return [
        f"{row.applies_to}: {row.check}.{row.metric}: {fault}"
        for row in thresholds
        for fault in lint_threshold(row)
    ]


def lint_threshold(row: Threshold) -> Iterator[str]:
    """Yield the mistakes of one row."""
    for name in ("source", "unit", "basis"):
        if not getattr(row, name):
            yield f"no {name}"
    if not is_iso_date(row.date):
        yield f"date {row.date!r} is not YYYY-MM-DD"
    if row.applies_to not in {*KINDS, "any", REHEARSAL}:
        yield f"applies to unknown kind {row.applies_to!r}"
    if (
        row.bound not in BOUNDS
        or row.on_miss not in {"fail", "warn"}
        or row.absent not in {"not_run", "skip"}
    ):
        yield f"unknown value among {row.bound!r}, {row.on_miss!r}, {row.absent!r}"
    if (row.value is None) != (row.bound == "unjudged"):
        yield "the threshold has a bound but no value"
    yield from lint_floor_threshold(row)


def lint_floor_threshold(row: Threshold) -> Iterator[str]:
    """Yield what is implausible about a floor."""
    if row.bound != "floor" or row.value is None:
        return
    # A rehearsed host has no part of its own whose peak could be named.
    if row.peak is None:
        if row.basis == "measured" and row.applies_to != REHEARSAL:
            yield "the threshold has a measured floor but no peak of the part"
        return
    share = row.value / row.peak if row.peak > 0 else 0.0
    if share < MIN_FLOOR_SHARE:
        yield f"floor {row.value:g} {row.unit} is {share:.2%} of the peak: it can hardly fail a bad part"
    elif share > MAX_FLOOR_SHARE:
        yield f"floor {row.value:g} {row.unit} is {share:.0%} of the peak: no part can reach it"


def is_iso_date(text: str) -> bool:
    """Return whether a text is an ISO date."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
