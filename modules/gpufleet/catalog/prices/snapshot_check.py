"""The checks of an import over the embedded snapshot, and which of their findings are accepted.

The bounds of ``check.py`` come from machines with GPUs. Ordinary machines have regions with another price level: AMD
and Arm machines cost about 0.55 of the median in India on all three clouds. Such a finding is accepted if many types of
the region have the same ratio to their median: an error hits single prices, a price level many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import median

from gpufleet.catalog import data_file
from gpufleet.catalog.prices.check import PriceCheckContext, check_prices
from gpufleet.catalog.prices.check_context import load_check_context_without_prices
from gpufleet.catalog.prices.licence_check import find_licensed_prices
from gpufleet.catalog.prices.name_check import KnownNames
from gpufleet.catalog.prices.row import PriceRow
from gpufleet.catalog.prices.size_check import MachineSize, machine_family

LEVEL_CODES = ("region-outlier", "dws-mismatch")
LEVEL_TYPES = 10  # so many other types of the region have the same ratio
LEVEL_TOLERANCE = 0.05


@dataclass(frozen=True)
class SnapshotFinding:
    """A finding on a row of the snapshot; an accepted one belongs to a region's price level."""

    code: str
    row: PriceRow
    reason: str
    is_accepted: bool


def check_snapshot_rows(
    rows: Iterable[PriceRow], sizes: Mapping[tuple[str, str], MachineSize]
) -> list[SnapshotFinding]:
    """Return every finding; ``sizes`` are of machines without accelerators. Names are not checked: rows define them."""
    context = replace(_load_context(), sizes=sizes)
    rows = list(rows)
    by_item: dict[tuple[str, str], list[PriceRow]] = defaultdict(list)
    by_family: dict[tuple[str, str], list[PriceRow]] = defaultdict(list)
    for row in rows:
        by_item[row.cloud, row.item].append(row)
        by_family[row.cloud, machine_family(row.cloud, row.item)].append(row)
    findings = [
        (finding.code, finding.row, finding.reason)
        for _, family_rows in sorted(by_family.items())
        for finding in check_prices(family_rows, context)
    ]
    findings += find_licensed_prices(rows)
    ratios = {id(row): _ratio_to_median(row, by_item[row.cloud, row.item]) for _, row, _ in findings}
    levels: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in {id(row): row for code, row, _ in findings if code in LEVEL_CODES}.values():
        levels[row.cloud, row.region].append(ratios[id(row)])
    return [
        SnapshotFinding(
            code,
            row,
            reason,
            code in LEVEL_CODES and _is_level(ratios[id(row)], levels[row.cloud, row.region]),
        )
        for code, row, reason in findings
    ]


def _ratio_to_median(row: PriceRow, item_rows: list[PriceRow]) -> float:
    return row.usd_per_hour / median(each.usd_per_hour for each in item_rows if each.purchase == row.purchase)


def _is_level(ratio: float, ratios: list[float]) -> bool:
    alike = sum(abs(other / ratio - 1) <= LEVEL_TOLERANCE for other in ratios)
    return alike > LEVEL_TYPES


@cache
def _load_context() -> PriceCheckContext:
    prices = {
        key: (price.usd_per_hour, price.earliest_price_date.isoformat() if price.earliest_price_date else "")
        for key, price in data_file.load_machine_prices().items()
    }
    return replace(load_check_context_without_prices(), prices=prices, names=KnownNames())
