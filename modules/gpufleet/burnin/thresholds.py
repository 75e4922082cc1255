"""Thresholds and required checks, as the checks' folders have them: data with source and date."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache

from gpufleet.burnin.card import CardFloor, load_card_floors, load_cards
from gpufleet.burnin.check_definition import (
    ANY,
    HARDWARE,
    KINDS,
    PROFILES,
    REHEARSAL,
    ThresholdEntry,
    load_checks,
)
from gpufleet.burnin.pcie_generation import load_pcie_generations
from gpufleet.errors import InputError

# Between two checks of which a node needs one.
ALTERNATIVE = " or "
BOUNDS = ("floor", "ceiling", "below", "unjudged")
# A peak that the catalogue knows: `bandwidth_gb_s of NVIDIA H200`, or with a factor `500 x bandwidth_gb_s of …`.
# The GPUs of a collective: `a100_sxm_x8`.
COLLECTIVE = re.compile(r"_x\d+$")
CATALOGUE_PEAK = re.compile(r"(?:(\d+(?:\.\d+)?) x )?([a-z0-9_]+) of (.+)")


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
    # Where the peak comes from, if the catalogue has it.
    peak_source: str = ""
    # The site's override, as reports show it.
    override: str = ""
    # The kind of card that the metric belongs to: where a node has none, the bound does not apply.
    card: str = ""

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
    """Return every threshold we judge by; those of a rehearsal come last."""
    rows = [
        row
        for name, check in load_checks().items()
        for entry in check.thresholds
        for row in build_thresholds(name, entry)
    ]
    rows += [row for floor in load_card_floors() for row in build_card_thresholds(floor)]
    order = {name: number for number, name in enumerate(load_checks())}
    return tuple(sorted(rows, key=lambda row: (row.applies_to == REHEARSAL, order[row.check])))


def build_thresholds(check_name: str, entry: ThresholdEntry) -> Iterator[Threshold]:
    """Yield a threshold for each kind of node and metric of an entry; a peak may name a part of the catalogue."""
    bound, value = entry.find_bound()
    is_judged = bound != "unjudged"
    is_named = isinstance(entry.peak, str)
    for applies_to in entry.applies_to:
        for metric in entry.metric:
            yield Threshold(
                applies_to=applies_to,
                check=check_name,
                metric=metric,
                bound=bound,
                value=value,
                unit=entry.unit,
                on_miss=entry.on_miss or ("fail" if is_judged else "warn"),
                absent=entry.absent or ("not_run" if is_judged else "skip"),
                peak=find_peak(check_name, entry.peak),
                basis=entry.basis,
                meaning=entry.meaning,
                source=entry.source,
                date=entry.date.isoformat(),
                peak_source=str(entry.peak) if is_named else "",
            )


def build_card_thresholds(floor: CardFloor) -> Iterator[Threshold]:
    """Yield the floors of one rate of a card: what fails, what warns; without either a row that says why."""
    entry = find_metric(floor.check, floor.metric)
    if entry is None or not entry.is_per_card:
        raise InputError(
            f"{floor.check} has no metric {floor.metric!r} of cards",
            where="gpufleet/burnin/data/card_floors.csv",
            key="metric",
        )
    peak = find_card_peak(floor.card, entry.card_peak)
    bounds = {"fail": floor.fail_below, "warn": floor.warn_below}
    judged = {outcome: value for outcome, value in bounds.items() if value is not None}
    outcomes: dict[str, float | None] = {**judged} or {"warn": None}
    for outcome, value in outcomes.items():
        yield Threshold(
            applies_to=ANY,
            check=floor.check,
            metric=f"{floor.card}_{floor.metric}",
            bound="unjudged" if value is None else "floor",
            value=value,
            unit=entry.unit,
            on_miss=outcome,
            absent="skip" if value is None else "not_run",
            peak=find_peak(floor.check, peak) if judged else None,
            basis=floor.basis or "policy",
            meaning=entry.meaning,
            source=floor.source,
            date=floor.date.isoformat(),
            peak_source=peak if isinstance(peak, str) and judged else "",
            card=floor.card,
        )


def find_metric(check_name: str, metric: str) -> ThresholdEntry | None:
    """Return what a check's `check.yaml` says of a metric that it records."""
    check = load_checks().get(check_name)
    entries = check.thresholds if check else ()
    return next((entry for entry in entries if metric in entry.metric), None)


def find_card_peak(card: str, field: str) -> float | str | None:
    """Return where the catalogue has the peak of a card's rate, or the rate of its PCIe link; None if unknown."""
    from gpufleet import catalog

    kind = COLLECTIVE.sub("", card)
    part = next((known.catalogue for known in load_cards() if known.card == kind), None)
    if part is None or not field:
        return None
    if field != "pcie_gen":
        return f"{field} of {part}"
    row = load_pcie_generations().get(int(catalog.get_accelerator(part).pcie_gen or 0))
    return row.x16_gb_per_s if row else None


def find_peak(check_name: str, peak: float | str | None) -> float | None:
    """Return a peak, from the catalogue if it names one; InputError for an unknown part or field."""
    if not isinstance(peak, str):
        return None if peak is None else float(peak)
    from gpufleet import catalog

    where = f"gpufleet/burnin/checks/{check_name}/check.yaml"
    match = CATALOGUE_PEAK.fullmatch(peak)
    if match is None:
        raise InputError(
            f"{peak!r} is not a peak", where=where, remedy="write a number, or FIELD of ACCELERATOR"
        )
    factor, field, part = match.groups()
    figure = getattr(catalog.get_accelerator(part), field, None)
    if not isinstance(figure, int | float):
        raise InputError(f"the catalogue has no {field} of {part}", where=where, key="peak")
    return float(figure) * float(factor or 1)


def select_thresholds(node_kind: str, *, rehearsal: bool = False) -> tuple[Threshold, ...]:
    """Return what a node of a kind is judged by; in a rehearsal its own rows replace the kind's."""
    rows = [row for row in load_thresholds() if row.applies_to in {node_kind, ANY}]
    if not rehearsal:
        return tuple(rows)
    rehearsal_rows = [row for row in load_thresholds() if row.applies_to == REHEARSAL]
    replaced = {(row.check, row.metric) for row in rehearsal_rows}
    return (*(row for row in rows if (row.check, row.metric) not in replaced), *rehearsal_rows)


@cache
def load_required_checks() -> dict[str, tuple[str, ...]]:
    """Return the required checks of each kind of node, and in addition of each key of ``HARDWARE``.

    ``A or B``: one of the two must have run, for a card has ROCm, or Vulkan, or both.
    """
    required: dict[str, tuple[str, ...]] = dict.fromkeys((*KINDS, *HARDWARE), ())
    for name, check in load_checks().items():
        entry = f"{name}{ALTERNATIVE}{check.alternative}" if check.alternative else name
        for key in required:
            if key in check.required or (key in KINDS and ANY in check.required):
                required[key] += (entry,)
    return required


def list_required_checks(node_kind: str, profile: str, hardware: Collection[str] = ()) -> tuple[str, ...]:
    """Return the checks that must have run on a node of a kind in a profile: the same in every one.

    ``hardware`` has what is known to be in the node: keys of ``HARDWARE``.
    """
    if node_kind not in KINDS:
        raise InputError(f"unknown node kind {node_kind!r}", remedy=f"use one of {', '.join(KINDS)}")
    if profile not in PROFILES:
        raise InputError(f"unknown burn-in profile {profile!r}", remedy=f"use one of {', '.join(PROFILES)}")
    required = load_required_checks()
    more = [check for name in sorted(hardware) for check in required.get(name, ())]
    return tuple(dict.fromkeys([*required[node_kind], *more]))
