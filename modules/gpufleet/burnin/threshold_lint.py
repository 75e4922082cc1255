"""Check that thresholds are plausible: each has a source, a date, a unit, and a bound that can pass and fail a part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime

from gpufleet.burnin.check_definition import ANY, KINDS, REHEARSAL
from gpufleet.burnin.readings import list_read_checks
from gpufleet.burnin.thresholds import BOUNDS, Threshold, load_thresholds

# A floor outside this share of the part's peak is a slip: it can never fail a bad part, or never pass a good one.
MIN_FLOOR_SHARE, MAX_FLOOR_SHARE = 0.30, 1.00
BASES = ("policy", "vendor", "measured", "site")


def lint_thresholds(rows: tuple[Threshold, ...] | None = None) -> list[str]:
    """Return what is wrong with thresholds, each with its row; with the shipped ones also checks that have none."""
    thresholds = load_thresholds() if rows is None else rows
    faults = [(row, fault) for row in thresholds for fault in lint_threshold(row)]
    faults += lint_threshold_pairs(thresholds)
    texts = [f"{row.applies_to}: {row.check}.{row.metric}: {fault}" for row, fault in faults]
    return texts if rows is not None else [*texts, *lint_unjudged_checks(thresholds)]


def lint_unjudged_checks(thresholds: tuple[Threshold, ...]) -> Iterator[str]:
    """Yield the checks whose records are read and never judged: each would count as not run."""
    judged = {row.check for row in thresholds if row.value is not None}
    for name in list_read_checks():
        if name not in judged:
            yield f"{name}: no threshold has a bound: the check would always count as not run"


def lint_threshold(row: Threshold) -> Iterator[str]:
    """Yield the mistakes of one row."""
    for name in ("source", "unit", "basis"):
        if not getattr(row, name):
            yield f"no {name}"
    if row.basis and row.basis not in BASES:
        yield f"unknown basis {row.basis!r}"
    if not is_iso_date(row.date):
        yield f"date {row.date!r} is not YYYY-MM-DD"
    if row.applies_to not in {*KINDS, ANY, REHEARSAL}:
        yield f"applies to unknown kind {row.applies_to!r}"
    if row.check not in list_read_checks():
        yield f"no check {row.check!r} is read"
    if (
        row.bound not in BOUNDS
        or row.on_miss not in {"fail", "warn"}
        or row.absent not in {"not_run", "skip"}
    ):
        yield f"unknown value among {row.bound!r}, {row.on_miss!r}, {row.absent!r}"
    if (row.value is None) != (row.bound == "unjudged"):
        yield "the threshold has a bound but no value"
    if row.bound != "unjudged" and not row.meaning:
        yield "the threshold has no meaning: a report could not say what was missed"
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


def lint_threshold_pairs(rows: tuple[Threshold, ...]) -> Iterator[tuple[Threshold, str]]:
    """Yield rows that repeat or contradict another one, with the mistake."""
    shipped = [row for row in rows if not row.override]
    counts = Counter((row.applies_to, row.check, row.metric, row.bound, row.on_miss) for row in shipped)
    for (applies_to, check, metric, bound, on_miss), count in counts.items():
        if count > 1:
            row = next(
                row for row in rows if (row.applies_to, row.check, row.metric) == (applies_to, check, metric)
            )
            yield row, f"{count} rows have the bound {bound} with the outcome {on_miss}"
    for warning in (row for row in rows if row.on_miss == "warn" and row.value is not None):
        for failure in rows:
            if failure.on_miss == "fail" and is_warning_hidden(warning, failure):
                yield warning, f"never warns: {failure.bound_text} fails first"


def is_warning_hidden(warning: Threshold, failure: Threshold) -> bool:
    """Return whether everything that a bound warns of has failed another bound of the same metric already."""
    same = (warning.applies_to, warning.check, warning.metric) == (
        failure.applies_to,
        failure.check,
        failure.metric,
    )
    if not same or warning.value is None or failure.value is None:
        return False
    if warning.bound == failure.bound == "floor":
        return failure.value >= warning.value
    upper = {"ceiling", "below"}
    return {warning.bound, failure.bound} <= upper and failure.value <= warning.value


def is_iso_date(text: str) -> bool:
    """Return whether a text is an ISO date that has come."""
    try:
        return date.fromisoformat(text) <= datetime.now(UTC).date()
    except ValueError:
        return False
