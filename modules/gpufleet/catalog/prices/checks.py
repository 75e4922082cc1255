"""What is suspicious about a price: each check a small function from rows and what is known to findings.

The bounds come from the data that the project was handed (2025-04 to 2026-07, 139 machine types): list prices
and commitments lie within 0.71 and 1.60 of their median over regions, spot within 0.27 and 2.98; real cuts were
33 to 44 % (AWS P4 and P5, June 2025) and a real spot price moved by a factor of 3.1 within two years.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property
from statistics import median

from gpufleet.catalog.prices import vocabulary
from gpufleet.catalog.prices.row import COMMITMENTS, PriceRow
from gpufleet.catalog.prices.vocabulary import Names

PLACEHOLDER_SHARE = 0.10  # 24 AWS spot rows stood at exactly this share of on-demand
ALMOST_FULL = 0.95  # 51 spot rows stood at this share or more: no market price
SENTINELS = frozenset({700.0, 999.0, 9999.0, 99999.0})  # 700.0: what SkyPilot's TPU v6e rows carry
FIXED_BOUNDS = (0.6, 1.8)
SPOT_BOUNDS = (1 / 6, 6.0)
FEW_REGIONS = 4
FIXED_JUMP = (0.5, 1.5)
SPOT_JUMP = (0.2, 5.0)
HOURS_OF_TERM = {"1y": 8760, "3y": 26280}
WHOLE_TERM = 50  # a commitment at so many times on-demand is the whole term's price
WHOLE_TERM_USD = 1500.0  # the same where on-demand is unknown: no machine of any cloud costs this per hour
DWS_SHARE = 0.6  # 4.20 and 4.58 of 9.80 and 9.31 USD per GPU: what a mismatched SKU looked like
OFFERED_FOR = timedelta(days=180)  # so long a list of regions is believed complete
TAGS = ("suspect", "pre-2025-06-cut")

CODES = {
    "future": "dated on a day that has not come",
    "unknown-cloud": "of a cloud that nothing else here is about",
    "unknown-region": "of a region that its cloud does not have",
    "unknown-machine": "of a machine or part that neither the catalogue nor the file describes",
    "unknown-unit": "by a unit that nothing asks for",
    "zero-price": "costs nothing",
    "sentinel": "a filler, not an amount",
    "spot-not-cheaper": "spot at or above on-demand",
    "spot-placeholder": "spot at exactly 10 %, or at 95 % and more, of on-demand",
    "commitment-not-cheaper": "a commitment at or above on-demand: stale, or another term",
    "whole-term": "the whole term's price where an hour's belongs (Azure reservations)",
    "dws-mismatch": "Google's on-demand far below other regions: the SKU of another way to buy",
    "region-outlier": "far from what other regions charge",
    "jump": "far from the last known price",
    "not-offered": "priced, but not to be had there",
    "accelerators": "another number of accelerators than the machine has",
    "host-only": "a machine's price without its accelerators",
    "tagged": "its source says that it is suspect or stale",
}

PriceKey = tuple[str, str, str, str]


@dataclass(frozen=True)
class Offering:
    """Where a machine can be had, and since when that is known."""

    regions: frozenset[str]
    as_of: str
    source: str


@dataclass(frozen=True)
class Known:
    """What was known before: newest price and its day, accelerators, retirements and regions of machines."""

    prices: Mapping[PriceKey, tuple[float, str]] = field(default_factory=dict)
    accelerators: Mapping[tuple[str, str], float] = field(default_factory=dict)
    retired: Mapping[tuple[str, str], str] = field(default_factory=dict)
    offered: Mapping[tuple[str, str], Offering] = field(default_factory=dict)
    names: Names = field(default=Names())
    today: date = field(default_factory=lambda: vocabulary.today())  # noqa: PLW0108 - tests set the day


@dataclass(frozen=True)
class Finding:
    """One suspicious row."""

    code: str
    row: PriceRow
    reason: str


class Lot:
    """The rows that are judged together, with what is known."""

    def __init__(self, rows: Iterable[PriceRow], known: Known) -> None:
        self.rows = list(rows)
        self.known = known

    @cached_property
    def newest(self) -> dict[PriceKey, PriceRow]:
        """Return the newest row of each key."""
        return {row.key: row for row in sorted(self.rows, key=lambda row: (row.dated, row.upfront == "none"))}

    @cached_property
    def regions(self) -> dict[tuple[str, str, str, str], dict[str, float]]:
        """Return prices by cloud, item, purchase and upfront, then by region."""
        found: dict[tuple[str, str, str, str], dict[str, float]] = defaultdict(dict)
        for row in sorted(self.rows, key=lambda row: row.dated):
            if row.usd_per_hour not in SENTINELS and row.usd_per_hour > 0:
                found[row.cloud, row.item, row.purchase, row.upfront][row.region] = row.usd_per_hour
        return found

    def on_demand(self, row: PriceRow) -> float | None:
        """Return the on-demand price beside a row: of the same lot, else the last known."""
        key = (*row.key[:3], "on_demand")
        beside = self.newest.get(key)
        if beside is not None:
            return beside.usd_per_hour or None
        known = self.known.prices.get(key)
        return known[0] if known else None


def examine(rows: Iterable[PriceRow], known: Known) -> Iterator[Finding]:
    """Yield every finding, row by row; a row may have several."""
    lot = Lot(rows, known)
    for row in lot.rows:
        for code, judge in CHECKS.items():
            reason = judge(row, lot)
            if reason:
                yield Finding(code, row, reason)


def _zero(row: PriceRow, lot: Lot) -> str | None:  # noqa: ARG001 - every check is called alike
    if row.usd_per_hour > 0 or (row.kind == "part" and row.item in FREE_PARTS):
        return None
    return "costs 0.00"


FREE_PARTS = frozenset({"efa"})  # what its vendor says has no charge


def _sentinel(row: PriceRow, lot: Lot) -> str | None:
    if row.usd_per_hour not in SENTINELS:
        return None
    others = list(lot.regions.get((row.cloud, row.item, row.purchase, row.upfront), {}).values())
    if others and FIXED_BOUNDS[0] <= row.usd_per_hour / median(others) <= FIXED_BOUNDS[1]:
        return None
    return f"{row.usd_per_hour:g} stands for no price"


def _spot_not_cheaper(row: PriceRow, lot: Lot) -> str | None:
    full = lot.on_demand(row)
    if row.purchase != "spot" or not full or row.usd_per_hour < full:
        return None
    return f"spot {row.usd_per_hour:g} is not below on-demand {full:g}"


def _spot_placeholder(row: PriceRow, lot: Lot) -> str | None:
    full = lot.on_demand(row)
    if row.purchase != "spot" or not full or row.usd_per_hour >= full:
        return None
    share = row.usd_per_hour / full
    if round(share, 4) == PLACEHOLDER_SHARE or share >= ALMOST_FULL:
        return f"spot is {share:.1%} of on-demand {full:g}"
    return None


def _commitment_not_cheaper(row: PriceRow, lot: Lot) -> str | None:
    full = lot.on_demand(row)
    if row.purchase not in COMMITMENTS or not full or not full <= row.usd_per_hour < full * WHOLE_TERM:
        return None
    return f"{row.purchase} {row.usd_per_hour:g} is not below on-demand {full:g}"


def _whole_term(row: PriceRow, lot: Lot) -> str | None:
    if row.purchase not in COMMITMENTS or row.kind == "part":
        return None
    full = lot.on_demand(row)
    if row.usd_per_hour < (full * WHOLE_TERM if full else WHOLE_TERM_USD):
        return None
    hours = HOURS_OF_TERM[row.purchase[-2:]]
    return f"{row.usd_per_hour:g} per hour looks like the whole term: {row.usd_per_hour / hours:.4g} an hour"


def _dws_mismatch(row: PriceRow, lot: Lot) -> str | None:
    if row.cloud != "gcp" or row.purchase != "on_demand":
        return None
    others = _others(row, lot)
    if not others or row.usd_per_hour <= 0:
        return None
    usual = median(others) if len(others) >= FEW_REGIONS - 1 else max(others)
    if row.usd_per_hour >= DWS_SHARE * usual:
        return None
    return f"{row.usd_per_hour:g} where other regions charge {usual:g}: a Dynamic Workload Scheduler SKU?"


def _region_outlier(row: PriceRow, lot: Lot) -> str | None:
    everywhere = lot.regions.get((row.cloud, row.item, row.purchase, row.upfront), {}).values()
    if len(everywhere) < FEW_REGIONS or row.usd_per_hour in SENTINELS or row.usd_per_hour <= 0:
        return None
    low, high = SPOT_BOUNDS if row.purchase == "spot" else FIXED_BOUNDS
    usual = median(everywhere)
    if low <= row.usd_per_hour / usual <= high:
        return None
    return f"{row.usd_per_hour:g} in {row.region}, {usual:g} in the median region"


def _jump(row: PriceRow, lot: Lot) -> str | None:
    known = lot.known.prices.get(row.key)
    if (
        known is None
        or not known[0]
        or not row.usd_per_hour
        or not known[1] <= row.dated
        or row.upfront != "none"
    ):
        return None
    low, high = SPOT_JUMP if row.purchase == "spot" else FIXED_JUMP
    if low <= row.usd_per_hour / known[0] <= high:
        return None
    return f"{row.usd_per_hour:g}, after {known[0]:g} on {known[1] or 'an unknown day'}"


def _not_offered(row: PriceRow, lot: Lot) -> str | None:
    if row.offered is False:
        return f"its source does not list {row.item} in {row.region}"
    gone = lot.known.retired.get((row.cloud, row.item))
    if gone and (not row.dated or row.dated >= gone):
        return f"{row.item} was retired on {gone}"
    offering = lot.known.offered.get((row.cloud, row.item))
    if offering is None or row.region in offering.regions or row.offered:
        return None
    if row.dated and date.fromisoformat(row.dated) > date.fromisoformat(offering.as_of) + OFFERED_FOR:
        return None
    return f"{row.item} is not offered in {row.region} ({offering.source}, {offering.as_of})"


def _accelerators(row: PriceRow, lot: Lot) -> str | None:
    known = lot.known.accelerators.get((row.cloud, row.item))
    if known is None or row.facts is None or not row.facts.accelerators:
        return None
    if abs(row.facts.accelerators - known) <= max(0.01, known * 0.01):
        return None
    return f"says {row.facts.accelerators:g} accelerators, {row.item} has {known:g}"


def _host_only(row: PriceRow, lot: Lot) -> str | None:
    known = lot.known.accelerators.get((row.cloud, row.item))
    if known is None or row.facts is None or row.facts.accelerators:
        return None
    return f"prices {row.item} without its {known:g} accelerators"


def _tagged(row: PriceRow, lot: Lot) -> str | None:  # noqa: ARG001 - every check is called alike
    tags = [part for part in row.source.split(";") if part.startswith(TAGS)]
    return f"its source says {tags[0]}" if tags else None


def _others(row: PriceRow, lot: Lot) -> list[float]:
    """Return what the other regions charge for the same, bought the same way."""
    regions = lot.regions.get((row.cloud, row.item, row.purchase, row.upfront), {})
    return [usd for region, usd in regions.items() if region != row.region]


CHECKS: dict[str, Callable[[PriceRow, Lot], str | None]] = {
    "future": lambda row, lot: vocabulary.future(row, lot.known.today),
    "unknown-cloud": lambda row, lot: vocabulary.cloud(row, lot.known.names),
    "unknown-region": lambda row, lot: vocabulary.region(row, lot.known.names),
    "unknown-machine": lambda row, lot: vocabulary.item(row, lot.known.names),
    "unknown-unit": lambda row, lot: vocabulary.unit(row, lot.known.names),
    "zero-price": _zero,
    "sentinel": _sentinel,
    "spot-not-cheaper": _spot_not_cheaper,
    "spot-placeholder": _spot_placeholder,
    "commitment-not-cheaper": _commitment_not_cheaper,
    "whole-term": _whole_term,
    "dws-mismatch": _dws_mismatch,
    "region-outlier": _region_outlier,
    "jump": _jump,
    "not-offered": _not_offered,
    "accelerators": _accelerators,
    "host-only": _host_only,
    "tagged": _tagged,
}
