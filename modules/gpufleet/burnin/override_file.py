"""Read the file of site overrides (`burn-in-thresholds.yaml`) and check every entry like a shipped threshold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gpufleet.boundary import decode_yaml, make_printable, validate_with_pydantic
from gpufleet.burnin.check_definition import ANY, KINDS, REHEARSAL
from gpufleet.burnin.overrides import ThresholdOverride, apply_overrides
from gpufleet.burnin.site_metric import RATES, SiteMetric, choose_bound, find_site_metric
from gpufleet.burnin.threshold_lint import is_iso_date, lint_thresholds
from gpufleet.burnin.thresholds import Threshold, load_thresholds, select_thresholds
from gpufleet.errors import InputError
from gpufleet.fleet.frozen_model import DateText

MAX_OVERRIDES = 200
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
UPPER = frozenset({"ceiling", "below"})


class OverrideEntry(BaseModel):
    """One entry of the file, as a person writes it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    check: Text
    metric: Text
    value: float
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=500)]
    by: Text
    date: DateText
    instead_of: float | None = None
    kind: Text | None = None
    card: Text | None = None
    gpus: Annotated[int, Field(ge=2, le=1024)] | None = None
    unlisted_card: bool = False
    bound: Literal["floor", "ceiling", "below"] | None = None
    unit: Text | None = None
    on_miss: Literal["fail", "warn"] | None = None
    absent: Literal["not_run", "skip"] | None = None


class OverrideFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    overrides: Annotated[list[OverrideEntry], Field(max_length=MAX_OVERRIDES)]


def parse_overrides(text: str, where: str) -> tuple[ThresholdOverride, ...]:
    """Read a file of overrides; anything wrong is one InputError with its place."""
    document = decode_yaml(text, where)
    if not isinstance(document, dict):
        raise InputError(
            "must be a mapping with the key overrides", where=where, remedy="see docs/burn-in.md"
        )
    entries = validate_with_pydantic(OverrideFile, document, where).overrides
    overrides = tuple(
        override
        for number, entry in enumerate(entries)
        for override in build_overrides(entry, where, f"overrides.{number}")
    )
    check_repetitions(overrides, where)
    check_combined_bounds(overrides, where)
    return overrides


def check_repetitions(overrides: tuple[ThresholdOverride, ...], where: str) -> None:
    """Raise InputError if two overrides speak of the same bound on the same kind of node."""
    known: set[tuple[str | None, object]] = set()
    for override in overrides:
        row = override.shipped or override.site
        target = override.shipped or (row.check, row.metric, "upper" if row.bound in UPPER else "floor")
        for kind in (override.kind, None) if override.kind else (None, *KINDS):
            if (kind, target) in known:
                verb = f"replace {row.check}.{row.metric} {row.bound_text}"
                shown = verb if override.shipped else f"bound {row.check}.{row.metric} the same way"
                raise InputError(f"two overrides {shown}", where=where)
        known.add((override.kind, target))


def check_combined_bounds(overrides: tuple[ThresholdOverride, ...], where: str) -> None:
    """Raise InputError if the bounds of a kind of node contradict each other once all overrides apply."""
    for kind in KINDS:
        rows = apply_overrides(select_thresholds(kind), overrides, kind)
        faults = [*lint_thresholds(rows), *find_contradictions(rows)]
        if faults:
            raise InputError(faults[0], where=where)


def find_contradictions(rows: tuple[Threshold, ...]) -> Iterator[str]:
    """Yield what no value can meet: a floor above a ceiling of the same metric, if the site has set one of them."""
    bounds: dict[tuple[str, str], list[Threshold]] = {}
    for row in rows:
        if row.value is not None:
            bounds.setdefault((row.check, row.metric), []).append(row)
    for (check, metric), same in bounds.items():
        for floor in (row for row in same if row.bound == "floor"):
            for upper in (row for row in same if row.bound in UPPER):
                if (floor.override or upper.override) and not upper.is_met_by(floor.value or 0.0):
                    yield f"{check}.{metric}: no value is {floor.bound_text} and {upper.bound_text}"


def build_overrides(entry: OverrideEntry, where: str, key: str) -> list[ThresholdOverride]:
    """Build an entry's overrides, one for each threshold that it replaces, or the one that it adds."""
    check_entry(entry, where, key)
    metric = find_site_metric(entry, where, key)
    rows = [row for row in load_thresholds() if (row.check, row.metric) == (entry.check, metric.name)]
    if entry.kind:
        rows = [row for row in rows if row.applies_to in {entry.kind, ANY}]
    rows = [row for row in rows if row.applies_to != REHEARSAL and row.value is not None]
    if entry.instead_of is None:
        overrides = [add_bound(entry, metric, rows, where, key)]
    else:
        overrides = replace_bounds(entry, metric, rows, where, key)
    if (
        RATES.fullmatch(metric.unit)
        and any(row.site.bound == "floor" for row in overrides)
        and entry.value <= 0
    ):
        raise InputError(
            f"must be above 0, got {entry.value:g}: a rate is never below 0",
            where=where,
            key=f"{key}.value",
            remedy="to see misses without a failure, set on_miss: warn",
        )
    faults = lint_thresholds(tuple(override.site for override in overrides))
    if faults:
        raise InputError(faults[0], where=where, key=key)
    return overrides


def replace_bounds(
    entry: OverrideEntry, metric: SiteMetric, rows: list[Threshold], where: str, key: str
) -> list[ThresholdOverride]:
    """Return the overrides of the shipped rows that have the value that the entry names."""
    shown = f"{entry.check}.{metric.name}"
    replaced = [row for row in rows if row.value == entry.instead_of]
    if not replaced:
        bounds = ", ".join(dict.fromkeys(row.bound_text for row in rows))
        raise InputError(
            f"{shown} has no bound of {entry.instead_of:g}",
            where=where,
            key=key,
            remedy=f"it has: {bounds}" if bounds else "no bound is shipped: leave out instead_of",
        )
    return [
        ThresholdOverride(
            entry.kind,
            row,
            replace(
                row,
                value=entry.value,
                on_miss=entry.on_miss or row.on_miss,
                absent=entry.absent or row.absent,
                basis="site",
                source=f"site override by {write_note(entry)}",
                date=entry.date,
                override=describe_override(row, entry),
            ),
        )
        for row in replaced
    ]


def add_bound(
    entry: OverrideEntry, metric: SiteMetric, rows: list[Threshold], where: str, key: str
) -> ThresholdOverride:
    """Return a bound of the site's own; one that is shipped in its direction must be named with ``instead_of``."""
    bound = choose_bound(entry.bound, metric, where, key)
    same = [row for row in rows if row.bound == bound or {row.bound, bound} <= UPPER]
    if same:
        raise InputError(
            "is missing: a bound is shipped",
            where=where,
            key=f"{key}.instead_of",
            remedy=f"{entry.check}.{metric.name} has: "
            + ", ".join(dict.fromkeys(row.bound_text for row in same)),
        )
    site = Threshold(
        applies_to=entry.kind or ANY,
        check=entry.check,
        metric=metric.name,
        bound=bound,
        value=entry.value,
        unit=metric.unit,
        on_miss=entry.on_miss or "fail",
        absent=entry.absent or "not_run",
        peak=metric.peak,
        basis="site",
        meaning=metric.meaning or f"{metric.name} misses the site's bound",
        source=f"site override by {write_note(entry)}",
        date=entry.date,
        card=metric.card,
    )
    text = f"site override (added): {site.metric} {site.bound_text}, {site.on_miss} on a miss"
    text = f"{text} ({write_note(entry)})"
    return ThresholdOverride(entry.kind, None, replace(site, override=text))


def check_entry(entry: OverrideEntry, where: str, key: str) -> None:
    """Raise InputError for what the file's shape allows and no override can mean."""
    if entry.kind and entry.kind not in KINDS:
        similar = get_close_matches(entry.kind, KINDS, n=1)
        raise InputError(
            f"unknown node kind {make_printable(entry.kind, 40)!r}",
            where=where,
            key=f"{key}.kind",
            remedy=f"did you mean {similar[0]}?" if similar else f"use one of {', '.join(KINDS)}",
        )
    if not is_iso_date(entry.date):
        raise InputError(
            f"{make_printable(entry.date, 40)!r} is not a past date (YYYY-MM-DD)",
            where=where,
            key=f"{key}.date",
        )
    if entry.value == entry.instead_of and not entry.on_miss and not entry.absent:
        raise InputError("the override changes nothing", where=where, key=key)
    if entry.bound and entry.instead_of is not None:
        raise InputError(
            "cannot be combined with instead_of: the shipped bound decides it",
            where=where,
            key=f"{key}.bound",
        )


def write_note(entry: OverrideEntry) -> str:
    """Return who set a bound, when and why."""
    return f"{make_printable(entry.by)}, {entry.date}: {make_printable(entry.reason, 500)}"


def describe_override(row: Threshold, entry: OverrideEntry) -> str:
    """Return the line that reports show on a check that an override touched."""
    site = replace(row, value=entry.value)
    outcome = f", {entry.on_miss} on a miss" if entry.on_miss and entry.on_miss != row.on_miss else ""
    change = f"{row.metric} {site.bound_text}{outcome} instead of {row.bound_text}"
    return f"site override ({describe_direction(row, entry)}): {change} ({write_note(entry)})"


def describe_direction(row: Threshold, entry: OverrideEntry) -> str:
    """Return whether an override is looser or stricter than what it replaces, or both in different ways."""
    is_higher = entry.value > (row.value or 0.0)
    bound = 0 if entry.value == entry.instead_of else 1 if is_higher == (row.bound == "floor") else -1
    outcome = {("fail", "warn"): -1, ("warn", "fail"): 1}.get((row.on_miss, entry.on_miss or row.on_miss), 0)
    directions = {bound, outcome} - {0}
    return "changed" if len(directions) != 1 else "stricter" if directions == {1} else "looser"
