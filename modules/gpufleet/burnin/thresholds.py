"""Thresholds and required checks: data with source and date."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpufleet.boundary import CsvRow, read_packaged_rows, read_packaged_yaml
from gpufleet.errors import InputError

KINDS = ("compute_blade", "pi_gpu_bench", "gpu_server", "workstation", "cloud_vm")
REHEARSAL = "rehearsal"
# Between two checks of which a node needs one.
ALTERNATIVE = " or "
BOUNDS = ("floor", "ceiling", "below", "unjudged")
# A peak that the catalogue knows: `bandwidth_gb_s of NVIDIA H200`, or with a factor `500 x bandwidth_gb_s of …`.
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
    return tuple(build_threshold(row) for row in read_packaged_rows("gpufleet.burnin", "data/thresholds.csv"))


def build_threshold(row: CsvRow) -> Threshold:
    """Build a threshold from its row; a peak may name a part of the catalogue."""
    match = CATALOGUE_PEAK.fullmatch(row["peak"])
    peak = compute_catalogue_peak(match) if match else row.get_optional_number("peak")
    values = {**row, "value": row.get_optional_number("value"), "peak": peak}
    return Threshold(**values, peak_source=row["peak"] if match else "")  # type: ignore[arg-type]


def compute_catalogue_peak(match: re.Match[str]) -> float:
    """Return the figure of the catalogue that a row's peak names; InputError for an unknown part or field."""
    from gpufleet import catalog

    factor, field, part = match.groups()
    figure = getattr(catalog.get_accelerator(part), field, None)
    if not isinstance(figure, int | float):
        raise InputError(f"the catalogue has no {field} of {part}", where="thresholds.csv", key="peak")
    return float(figure) * float(factor or 1)


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


def list_required_checks(node_kind: str, profile: str, hardware: Collection[str] = ()) -> tuple[str, ...]:
    """Return the checks that must have run on a node of a kind in a profile.

    ``hardware`` has what is known to be in the node: keys of ``with_hardware`` in the data file.
    """
    table = load_required_check_table()
    if node_kind not in table["kinds"]:
        raise InputError(f"unknown node kind {node_kind!r}", remedy=f"use one of {', '.join(KINDS)}")
    if profile not in table["profiles"]:
        raise InputError(
            f"unknown burn-in profile {profile!r}", remedy=f"use one of {', '.join(table['profiles'])}"
        )
    more = [check for name in sorted(hardware) for check in table["with_hardware"].get(name, ())]
    return tuple(dict.fromkeys([*table["kinds"][node_kind], *more]))
