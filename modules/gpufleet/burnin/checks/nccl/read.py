"""Read what the programs of nccl-tests and rccl-tests print: verified results and bus bandwidth.

`# Out of bounds values : 0 OK` is printed also where verification was off. So only counts in the table are evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpufleet.burnin.card import list_collective_cards
from gpufleet.burnin.evidence import (
    NOT_APPLICABLE,
    CheckReadings,
    Raw,
    Reading,
    build_check_readings,
    explain_if_empty,
    mapping_or_empty,
    to_finite_number,
)

# Out-of-place and in-place: time, algorithm bandwidth, bus bandwidth, wrong values.
COLUMNS = 8
MIN_FIELDS = 11
MPI_TAG = re.compile(r"^\[[\d,]+\]<std\w+>:\s?")
OUT_OF_BOUNDS = re.compile(r"# Out of bounds values : (\d{1,18})\b")
RANK = re.compile(r"^#\s+Rank\s+\d+\s")
# `# Rank 0 Group 0 Pid 7 on host device 0 [0x0a] NVIDIA H200`; older rccl-tests print no name.
RANK_NAME = re.compile(r"\bdevice\s+\d+ \[[0-9a-fA-Fx:.]+\] +(\S.*)$")
# Below this size a healthy machine has not reached its bandwidth, and floors of cards say nothing.
JUDGED_BYTES = 1 << 30


@dataclass(frozen=True)
class CollectiveRow:
    """One message size: bus bandwidths in GB/s, and wrong values (None: not verified)."""

    size_bytes: int
    busbw: tuple[float, float]
    wrong: tuple[int | None, int | None]


@dataclass(frozen=True)
class CollectiveReport:
    """A program's whole output."""

    ranks: int
    names: tuple[str, ...]
    rows: tuple[CollectiveRow, ...]
    has_wrong_column: bool
    out_of_bounds: int | None

    @property
    def wrong_values(self) -> int | None:
        """Return the wrong values of all sizes; None where no result was verified."""
        if not self.has_wrong_column:
            return self.out_of_bounds or None
        counts = [count for row in self.rows for count in row.wrong if count is not None]
        return max(sum(counts), self.out_of_bounds or 0) if counts else self.out_of_bounds or None

    @property
    def largest_busbw(self) -> float | None:
        """Return the bus bandwidth of the largest message, the slower one of out-of-place and in-place."""
        largest = max(self.rows, key=lambda row: row.size_bytes, default=None)
        return min((value for value in largest.busbw if value > 0), default=None) if largest else None


def parse_collective_report(text: str) -> CollectiveReport:
    """Parse the output of one program; lines of other programs (mpirun, NCCL_DEBUG) are skipped."""
    lines = [MPI_TAG.sub("", line).rstrip() for line in text.splitlines()]
    bounds = next((match for line in lines if (match := OUT_OF_BOUNDS.search(line))), None)
    return CollectiveReport(
        ranks=sum(bool(RANK.match(line)) for line in lines),
        names=tuple(
            match[1] for line in lines if RANK.match(line) and (match := RANK_NAME.search(line[:300]))
        ),
        rows=tuple(row for line in lines for row in parse_collective_row(line.split())),
        has_wrong_column=any(line.startswith("#") and "#wrong" in line for line in lines),
        out_of_bounds=int(bounds[1]) if bounds else None,
    )


def parse_collective_row(fields: list[str]) -> Iterator[CollectiveRow]:
    """Yield a line of the table; nothing for any other line."""
    if len(fields) < MIN_FIELDS or not (fields[0].isdecimal() and fields[1].isdecimal()):
        return
    cells = fields[-COLUMNS:]
    busbw = [to_float(cells[2]), to_float(cells[6])]
    if None not in busbw:
        size = min(int(fields[0][:18]), 1 << 60)
        yield CollectiveRow(
            size, (busbw[0] or 0.0, busbw[1] or 0.0), (to_count(cells[3]), to_count(cells[7]))
        )


def to_float(text: str) -> float | None:
    """Return a number of the table, None for anything else."""
    return float(text) if re.fullmatch(r"\d{1,9}(?:\.\d{1,6})?", text) else None


def to_count(text: str) -> int | None:
    """Return a count of wrong values; `N/A` means that nobody looked."""
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None


def read_record(raw: Raw) -> CheckReadings:
    """Wrong values, GPUs that took part, and the bus bandwidth of the largest message."""
    runs = mapping_or_empty(raw.get("runs"))
    gpus = to_finite_number(raw.get("gpus"))
    readings: dict[str, Reading] = {}
    for kind in ("all_reduce", "sendrecv"):
        run = mapping_or_empty(runs.get(kind))
        readings.update(read_collective_run(kind, run, gpus) if run else skip_collective_run(kind))
    bandwidth = readings["all_reduce_gb_per_s"]
    return explain_if_empty(
        build_check_readings(readings, bandwidth if isinstance(bandwidth, float) else None, "GB/s")
    )


def skip_collective_run(kind: str) -> dict[str, Reading]:
    """Return the readings of a program that is not installed."""
    names = ("wrong_values", "gpus_missing", "gb_per_s")
    return {f"{kind}_{name}": NOT_APPLICABLE for name in names}


def read_collective_run(kind: str, run: Raw, gpus: float | None) -> dict[str, Reading]:
    """Return one program's readings, or why there are none."""
    report = parse_collective_report(str(run.get("text")))
    wrong, bandwidth = report.wrong_values, report.largest_busbw
    reason = describe_missing_rows(kind, run, report)
    missing: Reading = max(0.0, gpus - report.ranks) if gpus is not None and report.ranks else NOT_APPLICABLE
    unverified = reason or f"{kind}: the results were not verified"
    rate: Reading = (reason or f"{kind}: no bandwidth") if bandwidth is None else bandwidth
    is_large = max((row.size_bytes for row in report.rows), default=JUDGED_BYTES) >= JUDGED_BYTES
    cards = list_collective_cards(report.names, report.ranks) if len(report.names) == report.ranks else []
    return {
        **{f"{card}_{kind}_gb_per_s": rate if is_large else NOT_APPLICABLE for card in cards},
        f"{kind}_wrong_values": unverified if wrong is None else float(wrong),
        f"{kind}_gpus_missing": missing,
        f"{kind}_gb_per_s": rate,
    }


def describe_missing_rows(kind: str, run: Raw, report: CollectiveReport) -> str:
    """Return why a run has no table, empty if it has one."""
    if report.rows:
        return ""
    error: Any = str(run.get("error") or run.get("text") or "").strip().splitlines()
    return f"{kind}: exit {run.get('code')}: {error[-1][:120] if error else 'no output'}"
