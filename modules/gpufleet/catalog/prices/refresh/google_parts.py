"""Parts of Google's services: gateways, balancers, clusters, databases, caches, storage, serverless.

``data/refresh_gcp.csv`` has the rules: the service's display name, a pattern that a SKU's description must match as a
whole, the unit that the SKU must have, and the public source that names them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpufleet.catalog.prices import part_rule
from gpufleet.catalog.prices.part_rule import PartName
from gpufleet.catalog.prices.refresh.google_sku import parse_unit_usd_per_hour
from gpufleet.catalog.prices.row import PriceRow

Sku = dict[str, Any]
GLOBAL_REGION = "global"  # of a price that is the same in all regions
PartKey = tuple[str, str]  # name and unit


@dataclass(frozen=True)
class GooglePartRule:
    """Which SKUs are a part."""

    service: str
    description: re.Pattern[str]
    usage_unit: str
    name: PartName


@cache
def list_part_rules() -> tuple[GooglePartRule, ...]:
    """Return all rules of the data file."""
    return tuple(
        GooglePartRule(
            row["service"], re.compile(row["description"]), row["usage_unit"], part_rule.read_part_name(row)
        )
        for row in part_rule.load_rule_rows("gcp")
    )


def list_part_services() -> frozenset[str]:
    """Return the display names of the services with parts."""
    return frozenset(rule.service for rule in list_part_rules())


class GooglePartCollector:
    """Collects the prices of parts by region. A region's own prices replace those of all regions."""

    def __init__(self) -> None:
        self._prices: dict[str, dict[PartKey, set[float]]] = defaultdict(lambda: defaultdict(set))

    def add_skus(self, service: str, skus: Iterable[Sku]) -> Iterator[Sku]:
        """Keep the prices of a service's parts, and pass all SKUs on."""
        for sku in skus:
            for region, part, usd in read_part_prices(service, sku):
                self._prices[region][part].add(usd)
            yield sku

    def build_price_rows(self, region: str, day: str, source: str) -> tuple[list[PriceRow], list[str]]:
        """Return one price for each part of a region and of all regions, and what is left out with reasons.

        Pricers look for some of the parts of all regions in the region, for others in ``global``.
        """
        rows, left_out = [], []
        everywhere = self._prices.get(GLOBAL_REGION, {})
        for place, prices in (
            (region, {**everywhere, **self._prices.get(region, {})}),
            (GLOBAL_REGION, everywhere),
        ):
            for (part, unit), amounts in sorted(prices.items()):
                if len(amounts) > 1:
                    left_out.append(f"gcp {place} {part}: {len(amounts)} prices")
                    continue
                usd = round(min(amounts), 12)
                rows.append(
                    PriceRow("gcp", place, part, "on_demand", usd, day, source, kind="part", unit=unit)
                )
        return rows, left_out


def read_part_prices(service: str, sku: Sku) -> Iterator[tuple[str, PartKey, float]]:
    """Yield region, part and USD per hour or use of a SKU; nothing if it is not a part, or free."""
    category, description = sku.get("category"), str(sku.get("description") or "")
    if not isinstance(category, dict) or category.get("usageType") != "OnDemand":
        return
    for rule in list_part_rules():
        match = rule.description.fullmatch(description) if rule.service == service else None
        usd = parse_unit_usd_per_hour(sku, rule.usage_unit) if match else None
        if match and usd:
            part = rule.name.format_name(match.groupdict()), rule.name.unit
            regions = sku.get("serviceRegions")
            for region in regions if isinstance(regions, list) else ():
                yield str(region), part, usd
            return
