"""Parts of Google's services: gateways, balancers, clusters, databases, caches, storage, serverless.

``data/refresh_gcp.csv`` has the rules: the service's display name, a pattern that a SKU's description must match as a
whole, the unit that the SKU must have, and the public source that names them. Optional columns: ``group`` (the SKU's
resource group), ``geography`` (``taxonomy``: the SKU's regions are in ``geoTaxonomy``, because ``serviceRegions`` says
``global`` whatever the region), ``component`` (the part costs the sum of its components), ``amount`` (units of the SKU
in a unit of the part) and ``purchase``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from gpufleet.boundary import Json
from gpufleet.catalog.prices import part_rule
from gpufleet.catalog.prices.part_rule import PartName
from gpufleet.catalog.prices.refresh.google_sku import find_unit_factor, parse_unit_usd_per_hour
from gpufleet.catalog.prices.row import PriceRow

GLOBAL_REGION = "global"  # of a price that is the same in all regions
# Spot prices of TPUs have the usage type OnDemand; only their descriptions tell them apart (SkyPilot's fetch_gcp.py).
USAGE_TYPES = {"on_demand": ("OnDemand",), "spot": ("Preemptible", "OnDemand")}


class PartKey(NamedTuple):
    """A part with its unit and purchase."""

    name: str
    unit: str
    purchase: str


@dataclass(frozen=True)
class GooglePartRule:
    """Which SKUs are a part, or a component of it."""

    service: str
    description: re.Pattern[str]
    usage_unit: str
    name: PartName
    group: str
    is_in_taxonomy: bool
    component: str
    amount: float
    purchase: str

    def match_sku(self, sku: Json) -> re.Match[str] | None:
        """Return the match of a SKU's description; None if the SKU is not the part, whatever its unit."""
        category = sku.get("category")
        if (
            not isinstance(category, dict)
            or category.get("usageType") not in USAGE_TYPES[self.purchase]
            or (self.group and category.get("resourceGroup") != self.group)
        ):
            return None
        return self.description.fullmatch(str(sku.get("description") or ""))

    def build_key(self, match: re.Match[str]) -> PartKey:
        """Return the part that a matched SKU is."""
        return PartKey(self.name.format_name(match.groupdict()), self.name.unit, self.purchase)


@cache
def list_part_rules() -> tuple[GooglePartRule, ...]:
    """Return all rules of the data file."""
    return tuple(
        GooglePartRule(
            row["service"],
            re.compile(row["description"]),
            row["usage_unit"],
            part_rule.read_part_name(row),
            row["group"],
            row["geography"] == "taxonomy",
            row["component"],
            float(row["amount"] or 1),
            row["purchase"] or "on_demand",
        )
        for row in part_rule.load_rule_rows("gcp")
    )


@cache
def list_service_rules(service: str) -> tuple[GooglePartRule, ...]:
    """Return the rules of a service by its display name."""
    return tuple(rule for rule in list_part_rules() if rule.service == service)


def list_part_services() -> frozenset[str]:
    """Return the display names of the services with parts."""
    return frozenset(rule.service for rule in list_part_rules())


@cache
def list_components(part: str) -> frozenset[str]:
    """Return the components whose prices a part adds up; one without a name for most parts."""
    return frozenset(rule.component for rule in list_part_rules() if rule.name.pattern.fullmatch(part))


class GooglePartCollector:
    """Collects the prices of parts by region. A region's own prices replace those of all regions."""

    def __init__(self) -> None:
        self._prices: dict[str, dict[PartKey, dict[str, set[float]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(set))
        )
        self._refused: dict[str, dict[str, None]] = defaultdict(dict)  # by region, without repetitions

    def add_skus(self, service: str, skus: Iterable[Json]) -> Iterator[Json]:
        """Keep the prices of a service's parts, and pass all SKUs on."""
        for sku in skus:
            for region, part, component, usd in read_part_prices(service, sku):
                self._prices[region][part][component].add(usd)
            for region, reason in find_unit_faults(service, sku):
                self._refused[region][reason] = None
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
            for part, amounts in sorted(prices.items()):
                reason = _find_ambiguity(part, amounts)
                if reason:
                    left_out.append(f"gcp {place} {part.name}: {reason}")
                    continue
                usd = round(sum(min(choices) for choices in amounts.values()), 12)
                rows.append(
                    PriceRow("gcp", place, part.name, part.purchase, usd, day, source, kind="part", unit=part.unit)
                )  # fmt: skip
        for place in (region, GLOBAL_REGION):
            left_out += [f"gcp {place} {reason}" for reason in self._refused.get(place, ())]
        return rows, left_out


def _find_ambiguity(part: PartKey, amounts: dict[str, set[float]]) -> str | None:
    """Return why SKUs do not give a part one price, None if they do."""
    missing = sorted(list_components(part.name) - set(amounts))
    if missing:
        return f"no SKU of {', '.join(missing)}"
    most = max(map(len, amounts.values()))
    return f"{most} prices" if most > 1 else None


def read_part_prices(service: str, sku: Json) -> Iterator[tuple[str, PartKey, str, float]]:
    """Yield region, part, component and USD per hour or use of a SKU; nothing if it is not a part, or free."""
    for rule in list_service_rules(service):
        match = rule.match_sku(sku)
        usd = parse_unit_usd_per_hour(sku, rule.usage_unit) if match else None
        if match and usd:
            for region in list_sku_regions(sku, rule.is_in_taxonomy):
                yield region, rule.build_key(match), rule.component, usd * rule.amount


def find_unit_faults(service: str, sku: Json) -> Iterator[tuple[str, str]]:
    """Yield region and reason where a SKU is a part by its description, but has a unit that measures another thing."""
    for rule in list_service_rules(service):
        match = rule.match_sku(sku)
        unit = _find_usage_unit(sku) if match else None
        if match and unit is not None and find_unit_factor(unit, rule.usage_unit) is None:
            reason = (
                f"{rule.build_key(match).name}: its SKU has the unit {unit[:20]!a}, not {rule.usage_unit}"
            )
            for region in list_sku_regions(sku, rule.is_in_taxonomy):
                yield region, reason


def _find_usage_unit(sku: Json) -> str | None:
    try:
        unit = sku["pricingInfo"][-1]["pricingExpression"]["usageUnit"]
    except (KeyError, IndexError, TypeError):
        return None
    return unit if isinstance(unit, str) else None


def list_sku_regions(sku: Json, is_in_taxonomy: bool) -> tuple[str, ...]:
    """Return the regions of a SKU: those it is offered in, or the one of its taxonomy.

    A multi-region's taxonomy lists the regions in it, whose own price is another: it gives none.
    """
    regions = sku.get("serviceRegions")
    if is_in_taxonomy:
        taxonomy = sku.get("geoTaxonomy")
        is_regional = isinstance(taxonomy, dict) and taxonomy.get("type") == "REGIONAL"
        regions = taxonomy.get("regions") if is_regional and isinstance(taxonomy, dict) else None
    return tuple(map(str, regions)) if isinstance(regions, list) else ()
