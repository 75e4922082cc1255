"""Read the file of site overrides (`burn-in-thresholds.yaml`) and check every entry like a shipped threshold."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from gpufleet.boundary import decode_yaml, make_printable, validate_with_pydantic
from gpufleet.burnin.check_definition import ANY, KINDS, REHEARSAL
from gpufleet.burnin.overrides import ThresholdOverride, apply_overrides
from gpufleet.burnin.threshold_lint import is_iso_date, lint_thresholds
from gpufleet.burnin.thresholds import Threshold, load_thresholds, select_thresholds
from gpufleet.errors import InputError

MAX_OVERRIDES = 200
# YAML reads an unquoted date as a date.
DateText = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is date else value)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class OverrideEntry(BaseModel):
    """One entry of the file, as a person writes it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    check: Text
    metric: Text
    instead_of: float
    value: float
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=500)]
    by: Text
    date: DateText
    kind: Text | None = None
    on_miss: Literal["fail", "warn"] | None = None


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
    replaced_rows: set[tuple[str | None, Threshold]] = set()
    for override in overrides:
        for kind in (override.kind, None) if override.kind else (None, *KINDS):
            if (kind, override.shipped) in replaced_rows:
                shown = f"{override.shipped.check}.{override.shipped.metric}"
                raise InputError(f"two overrides replace {shown} {override.shipped.bound_text}", where=where)
        replaced_rows.add((override.kind, override.shipped))
    check_combined_bounds(overrides, where)
    return overrides


def check_combined_bounds(overrides: tuple[ThresholdOverride, ...], where: str) -> None:
    """Raise InputError if the bounds of a kind of node contradict each other once all overrides apply."""
    for kind in KINDS:
        faults = lint_thresholds(apply_overrides(select_thresholds(kind), overrides, kind))
        if faults:
            raise InputError(faults[0], where=where)


def build_overrides(entry: OverrideEntry, where: str, key: str) -> list[ThresholdOverride]:
    """Build an entry's overrides, one for each threshold that it replaces."""
    check_entry(entry, where, key)
    rows = [row for row in load_thresholds() if (row.check, row.metric) == (entry.check, entry.metric)]
    if entry.kind:
        rows = [row for row in rows if row.applies_to in {entry.kind, ANY}]
    rows = [row for row in rows if row.applies_to != REHEARSAL and row.value is not None]
    shown = make_printable(f"{entry.check}.{entry.metric}", 80)
    if not rows:
        remedy = suggest_threshold(entry)
        raise InputError(f"no threshold bounds {shown}", where=where, key=key, remedy=remedy)
    replaced = [row for row in rows if row.value == entry.instead_of]
    if not replaced:
        bounds = ", ".join(dict.fromkeys(row.bound_text for row in rows))
        raise InputError(
            f"{shown} has no bound of {entry.instead_of:g}", where=where, key=key, remedy=f"it has: {bounds}"
        )
    note = f"{make_printable(entry.by)}, {entry.date}: {make_printable(entry.reason, 500)}"
    overrides = [
        ThresholdOverride(
            entry.kind,
            row,
            replace(
                row,
                value=entry.value,
                on_miss=entry.on_miss or row.on_miss,
                basis="site",
                source=f"site override by {note}",
                date=entry.date,
                override=describe_override(row, entry, note),
            ),
        )
        for row in replaced
    ]
    faults = lint_thresholds(tuple(override.site for override in overrides))
    if faults:
        raise InputError(faults[0], where=where, key=key)
    return overrides


def suggest_threshold(entry: OverrideEntry) -> str:
    """Return what an entry may have meant: the metrics of its check, or the name of a check."""
    checks = {row.check for row in load_thresholds()}
    metrics = {row.metric for row in load_thresholds() if row.check == entry.check and row.value is not None}
    if metrics:
        return f"{entry.check} has: {', '.join(sorted(metrics))}"
    similar = get_close_matches(entry.check, checks, n=1)
    return f"did you mean {similar[0]}?" if similar else f"use one of {', '.join(sorted(checks))}"


def check_entry(entry: OverrideEntry, where: str, key: str) -> None:
    """Raise InputError for what the file's shape allows and no override can mean."""
    if entry.kind and entry.kind not in KINDS:
        raise InputError(
            f"unknown node kind {make_printable(entry.kind, 40)!r}",
            where=where,
            key=f"{key}.kind",
            remedy=f"use one of {', '.join(KINDS)}",
        )
    if not is_iso_date(entry.date):
        raise InputError(
            f"{make_printable(entry.date, 40)!r} is not a past date (YYYY-MM-DD)",
            where=where,
            key=f"{key}.date",
        )
    if entry.value == entry.instead_of and entry.on_miss is None:
        raise InputError("the override changes nothing", where=where, key=key)


def describe_override(row: Threshold, entry: OverrideEntry, note: str) -> str:
    """Return the line that reports show on a check that an override touched."""
    site = replace(row, value=entry.value)
    outcome = f", {entry.on_miss} on a miss" if entry.on_miss and entry.on_miss != row.on_miss else ""
    change = f"{row.metric} {site.bound_text}{outcome} instead of {row.bound_text}"
    return f"site override ({describe_direction(row, entry)}): {change} ({note})"


def describe_direction(row: Threshold, entry: OverrideEntry) -> str:
    """Return whether an override is looser or stricter than what it replaces, or both in different ways."""
    is_higher = entry.value > entry.instead_of
    bound = 0 if entry.value == entry.instead_of else 1 if is_higher == (row.bound == "floor") else -1
    outcome = {("fail", "warn"): -1, ("warn", "fail"): 1}.get((row.on_miss, entry.on_miss or row.on_miss), 0)
    directions = {bound, outcome} - {0}
    return "changed" if len(directions) != 1 else "stricter" if directions == {1} else "looser"
