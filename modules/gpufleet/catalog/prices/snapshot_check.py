"""The checks of an import over the embedded snapshot, and which of their findings are accepted.

The bounds of ``check.py`` come from machines with GPUs. Ordinary machines have regions with another price level: AMD
and Arm machines cost about 0.55 of the median in India on all three clouds. Such a finding is accepted if many types of
the region have the same ratio to their median: an error hits single prices, a price level many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from statistics import median

from gpufleet.catalog import data_file
from gpufleet.catalog.prices import snapshot
from gpufleet.catalog.prices.check import PriceCheckContext, check_prices
from gpufleet.catalog.prices.check_context import load_check_context_without_prices
from gpufleet.catalog.prices.name_check import KnownNames
from gpufleet.catalog.prices.row import Kind, PriceRow

LEVEL_CODES = ("region-outlier", "dws-mismatch")
LEVEL_TYPES = 20  # so many other types of the region have the same ratio
LEVEL_TOLERANCE = 0.05


@dataclass(frozen=True)
class SnapshotFinding:
    """A finding on a row of the snapshot; an accepted one belongs to a region's price level."""

    code: str
    row: PriceRow
    reason: str
    is_accepted: bool


def check_snapshot_rows(rows: Iterable[PriceRow]) -> list[SnapshotFinding]:
    """Return every finding. Names are not checked: these rows define them."""
    context = _load_context()
    by_item: dict[tuple[str, str], list[PriceRow]] = defaultdict(list)
    for row in rows:
        by_item[row.cloud, row.item].append(row)
    found = [
        (finding.code, finding.row, finding.reason)
        for _, item_rows in sorted(by_item.items())
        for finding in check_prices(item_rows, context)
    ]
    ratios = {id(row): _ratio_to_median(row, by_item[row.cloud, row.item]) for _, row, _ in found}
    levels: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in {id(row): row for code, row, _ in found if code in LEVEL_CODES}.values():
        levels[row.cloud, row.region].append(ratios[id(row)])
    return [
        SnapshotFinding(
            code,
            row,
            reason,
            code in LEVEL_CODES and _is_level(ratios[id(row)], levels[row.cloud, row.region]),
        )
        for code, row, reason in found
    ]


def iterate_snapshot_rows(cloud: str) -> Iterator[PriceRow]:
    """Yield every embedded price of a cloud as a row for the checks."""
    for each_cloud, region, kind in snapshot.list_region_members():
        if each_cloud == cloud:
            yield from _iterate_member_rows(kind, cloud, region)


def _iterate_member_rows(kind: Kind, cloud: str, region: str) -> Iterator[PriceRow]:
    for item, price in snapshot.iterate_snapshot_prices(kind, cloud, region):
        yield PriceRow(
            cloud, region, item, price.purchase, price.usd_per_hour, price.as_of or "", price.source, kind,
            price.unit,
        )  # fmt: skip


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
