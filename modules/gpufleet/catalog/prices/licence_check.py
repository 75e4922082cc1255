"""Find Linux prices of Azure's burstable machines that include the licence of Windows.

A Windows price of these sizes is only 6 to 18 % above the Linux price: too close for the bounds of the other checks.
Between two regions all Linux prices of the series have the same ratio, within 2 %. A list that mixes both systems
shows two groups of ratios, and the lower one is Linux.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpufleet.catalog.prices.row import PriceRow

LICENCE_INCLUDED = "licence-included"
LICENCE_INCLUDED_TEXT = "a Linux price that includes the licence of Windows"
BURSTABLE = re.compile(r"Standard_B\d+[a-z]+_v2")
REFERENCE_REGION = "westeurope"  # its prices are of a list that names the system of each price
LARGEST_SPREAD = 1.035  # of the ratios of Linux prices: measured 1.02 at most; with Windows 1.05 at least


def find_licensed_prices(rows: Iterable[PriceRow]) -> Iterator[tuple[str, PriceRow, str]]:
    """Yield code, row and reason for each Linux price of a region above the region's lowest ratio."""
    regions: dict[str, dict[str, PriceRow]] = defaultdict(dict)
    for row in rows:
        if row.cloud == "azure" and row.purchase == "on_demand" and BURSTABLE.fullmatch(row.item):
            regions[row.region][row.item] = row
    reference = regions.get(REFERENCE_REGION, {})
    for _, machines in sorted(regions.items()):
        ratios = {
            item: row.usd_per_hour / reference[item].usd_per_hour
            for item, row in sorted(machines.items())
            if item in reference
        }
        lowest = min(ratios.values(), default=0)
        for item, ratio in ratios.items():
            if ratio > lowest * LARGEST_SPREAD:
                excess = f"{ratio / lowest - 1:.0%} above the region's level"
                yield LICENCE_INCLUDED, machines[item], f"{excess}, compared with {REFERENCE_REGION}"
