"""Azure's Retail Prices API: public, paged; one query per region for machines, and a few for the services with parts.

Notes on its fields (Microsoft's page "Azure Retail Prices overview", and users' threads): savings plans exist only in
2023-01-01-preview, whose filter values are case-sensitive. A reservation's ``retailPrice`` is the price of the whole
term although the unit is "1 Hour". Spot and low priority are suffixes of the meter's name; Windows is a suffix of the
product's name. A reservation covers the machine without Windows, which is billed on top.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from gpufleet.boundary import Json, shorten_repr
from gpufleet.catalog.prices.part_rule import find_first_paid
from gpufleet.catalog.prices.refresh import azure_licence, azure_parts
from gpufleet.catalog.prices.refresh.http_client import HttpClient
from gpufleet.catalog.prices.refresh.source import (
    RefreshScope,
    RegionPrices,
    RequestRejected,
    SourceUnavailable,
    build_region_prices,
)
from gpufleet.catalog.prices.row import MachineFacts, PriceRow, split_licensed_machine

BASE_URL = "https://prices.azure.com/api/retail/prices"
API_VERSION = "2023-01-01-preview"
MAX_PAGES = 200  # a region has about 10,000 items of machines, on pages of 1,000; older API versions send 100
TERM_HOURS = {"1 Year": 8760, "3 Years": 26280}
TERMS = {"1 Year": "1y", "3 Years": "3y"}
NOT_MACHINE = re.compile(r"Dedicated|Cloud ?Services|Promo", re.IGNORECASE)
WINDOWS = re.compile(r"Windows", re.IGNORECASE)
MACHINE_NAME = re.compile(r"(?:Standard|Basic)_[A-Za-z0-9_-]+\Z")
ACCELERATED_PREFIX = "Standard_N"  # its accelerators are in the catalogue, or the machine is unknown
REGION_PATTERN = re.compile(r"[a-z][a-z0-9]*\Z")
PartTier = tuple[str, str, float]  # name and unit of a part, and where the tier starts


@dataclass(frozen=True)
class PartItem:
    """An item and a part that it prices."""

    item: Json
    part: azure_parts.AzurePart

    @property
    def preference(self) -> tuple[int, bool, str]:
        """Return the sort key: the earlier rule first, then the preferred item."""
        return (-self.part.rank, *_preference(self.item))

    @property
    def usd(self) -> float | None:
        """Return USD per hour or use, None without an amount in USD."""
        amount = _amount_usd(self.item)
        return None if amount is None else amount / self.part.divisor


@dataclass
class AzureRetailPriceSource:
    """The source. ``base_url`` is Microsoft's address, except in tests."""

    http: HttpClient = field(default_factory=HttpClient)
    base_url: str = BASE_URL
    source_name: str = "azure-retail-prices"
    cloud_name: str = "azure"
    _licence_items: list[Json] | None = None  # the same for all regions

    def fetch_region_prices(self, region: str, scope: RefreshScope) -> RegionPrices:
        """Return the prices of a region's machines, with each system, and of its parts."""
        if not REGION_PATTERN.match(region):
            raise RequestRejected(f"{region!r} is not a region of Azure")
        reader = AzureItemReader(region, scope.day.isoformat(), self.source_name)
        rows = list(reader.build_price_rows(self.fetch_price_items(region)))
        if self._licence_items is None:
            self._licence_items = list(self.fetch_price_items(region, azure_licence.LICENCE_FILTER))
        rows += azure_licence.build_licensed_rows(rows, reader.read_licence_fees(self._licence_items))
        for query_filter in azure_parts.build_part_filters(region):
            rows += reader.build_part_rows(self.fetch_price_items(region, query_filter))
        return build_region_prices(rows, reader.left_out)

    def fetch_price_items(self, region: str, query_filter: str | None = None) -> Iterator[Json]:
        """Yield the items page by page, by default those of machines; raise SourceUnavailable if pages repeat."""
        query: dict[str, str] | None = {
            "api-version": API_VERSION,
            "$filter": query_filter or build_region_query_filter(region),
        }
        url, seen_links = self.base_url, set[str]()
        for _ in range(MAX_PAGES):
            page = self.http.get_json(url, query)
            items = page.get("Items")
            if not isinstance(items, list):
                raise SourceUnavailable(f"{self.source_name}: the API returned a page without Items")
            yield from (item for item in items if isinstance(item, dict))
            next_link = page.get("NextPageLink")
            if not next_link:
                return
            if next_link in seen_links or not self._is_same_host(next_link):
                raise SourceUnavailable(
                    f"{self.source_name}: the next page {_link_without_query(next_link)} is repeated or on another host"
                )
            seen_links.add(next_link)
            url, query = next_link, None
        raise SourceUnavailable(
            f"{self.source_name}: the API returned more than {MAX_PAGES} pages for {region}"
        )

    def _is_same_host(self, link: str) -> bool:
        """Return whether a link has the same host as the base URL; Microsoft's links include port 443."""
        link_parts, base_parts = urlsplit(link), urlsplit(self.base_url)
        return (link_parts.scheme, link_parts.hostname) == (base_parts.scheme, base_parts.hostname)


def build_region_query_filter(region: str) -> str:
    """Return the filter for a region's machines. Its values are case-sensitive."""
    return f"serviceName eq 'Virtual Machines' and armRegionName eq '{region}'"


class AzureItemReader:
    """Builds price rows from a region's items. ``left_out`` lists the others with reasons."""

    def __init__(self, region: str, day: str, source: str) -> None:
        self.region = region
        self.day = day
        self.source = source
        self.left_out: list[str] = []

    def build_price_rows(self, items: Iterable[Json]) -> Iterator[PriceRow]:
        """Yield one price for each machine, system and purchase."""
        chosen: dict[tuple[str, str], Json] = {}
        for item in items:
            purchase = find_purchase_kind(item)
            if purchase and item.get("armRegionName") == self.region and self._is_in_force(item):
                self._choose_item(chosen, (find_machine_item(item), purchase), item)
        for (machine, purchase), item in sorted(chosen.items()):
            yield from self._build_item_rows(machine, purchase, item, chosen)

    def build_part_rows(self, items: Iterable[Json]) -> Iterator[PriceRow]:
        """Yield one price for each part, of tiers the first that is not free.

        A price of all regions counts where the region has none of its own. Services without regions, such as DNS,
        have the prices of all regions or of the first zone, in the catalogue's region ``global``.
        """
        chosen: dict[str, dict[PartTier, PartItem]] = {
            name: {} for name in (azure_parts.ZONE_REGION, azure_parts.GLOBAL_REGION, self.region)
        }
        for item in items:
            tiers, tier_start = (
                chosen.get(str(item.get("armRegionName"))),
                _number(item.get("tierMinimumUnits") or 0),
            )
            if tiers is not None and tier_start is not None and self._is_in_force(item):
                for part in azure_parts.find_parts(item):
                    self._choose_part_item(tiers, tier_start, PartItem(item, part))
        zone, worldwide, regional = map(_find_paid_amounts, chosen.values())
        yield from azure_parts.build_part_rows(worldwide | regional, self.region, self.day, self.source)
        without_region = {
            key: usd for key, usd in (zone | worldwide).items() if azure_parts.is_worldwide(key[0])
        }
        yield from azure_parts.build_part_rows(
            without_region, azure_parts.WORLDWIDE_REGION, self.day, self.source
        )

    def read_licence_fees(self, items: Iterable[Json]) -> list[azure_licence.LicenceFee]:
        """Return the fees in force on the day; the newest of a size counts."""
        chosen: dict[tuple[str, str], Json] = {}
        for item in items:
            if azure_licence.read_licence_fee(item, _amount_usd(item)) and self._is_in_force(item):
                self._choose_item(chosen, (str(item["productName"]), str(item["skuName"])), item)
        fees = (azure_licence.read_licence_fee(item, _amount_usd(item)) for item in chosen.values())
        return [fee for fee in fees if fee]

    def _choose_item(self, chosen: dict[tuple[str, str], Json], key: tuple[str, str], item: Json) -> None:
        """Keep the preferred item; of two that are equally preferred with other amounts, the first is reported."""
        known = chosen.setdefault(key, item)
        if _preference(item) > _preference(known):
            chosen[key] = item
        elif _preference(item) == _preference(known) and _amount_usd(item) != _amount_usd(known):
            self._report_second_price(key[0], key[1], item)

    def _choose_part_item(
        self, chosen: dict[PartTier, PartItem], tier_start: float, candidate: PartItem
    ) -> None:
        """Keep the item of the earlier rule, then the preferred item; report two prices that are equally preferred."""
        part = candidate.part
        known = chosen.setdefault((part.name, part.unit, tier_start), candidate)
        if candidate.preference > known.preference:
            chosen[part.name, part.unit, tier_start] = candidate
        elif candidate.preference == known.preference and candidate.usd != known.usd:
            self._report_second_price(part.name, part.unit, candidate.item)

    def _report_second_price(self, name: str, detail: str, item: Json) -> None:
        self.left_out.append(
            f"azure {self.region} {name} {detail}: two prices,"
            f" {shorten_repr(item.get('retailPrice'))} is not used"
        )

    def _is_in_force(self, item: Json) -> bool:
        """Return whether the price is valid on the day; the API also lists past and future prices."""
        start, end = str(item.get("effectiveStartDate") or ""), str(item.get("effectiveEndDate") or "")
        return start[:10] <= self.day and (not end or end[:10] > self.day)

    def _build_item_rows(
        self, machine: str, purchase: str, item: Json, chosen: dict[tuple[str, str], Json]
    ) -> Iterator[PriceRow]:
        usd = _amount_usd(item)
        if usd is None:
            self.left_out.append(f"azure {self.region} {machine} {purchase}: no amount of USD per hour")
            return
        if item["type"] == "Reservation":
            yield from self._build_reservation_rows(machine, purchase, usd, chosen)
            return
        yield self._build_row(machine, purchase, usd)
        is_linux = not split_licensed_machine(machine)[1]
        plans = item.get("savingsPlan") if purchase == "on_demand" and is_linux else None
        for plan in plans if isinstance(plans, list) else ():
            term, amount = TERMS.get(str(plan.get("term"))), _amount_usd({**item, **plan})
            if term and amount is not None:
                yield self._build_row(machine, f"savings_plan_{term}", amount)

    def _build_reservation_rows(
        self, machine: str, purchase: str, usd: float, chosen: dict[tuple[str, str], Json]
    ) -> Iterator[PriceRow]:
        """Yield the price of the whole term per hour; a price below on-demand is left out as hourly.

        Windows is billed on top of a reservation, at the difference of the on-demand prices.
        """
        on_demand_usd = _amount_usd(chosen.get((machine, "on_demand"), {}))
        if on_demand_usd and usd < on_demand_usd:
            self.left_out.append(
                f"azure {self.region} {machine} {purchase}: {usd:g} a term, but {on_demand_usd:g} an hour"
            )
            return
        hours = TERM_HOURS["1 Year" if purchase.endswith("1y") else "3 Years"]
        yield self._build_row(machine, purchase, round(usd / hours, 6))
        windows_usd = _amount_usd(chosen.get((f"{machine}:windows", "on_demand"), {}))
        if on_demand_usd and windows_usd and windows_usd >= on_demand_usd:
            windows_row = self._build_row(
                f"{machine}:windows", purchase, round(usd / hours + windows_usd - on_demand_usd, 6)
            )
            yield replace(windows_row, source=f"{self.source};reservation-plus-Windows")

    def _build_row(self, machine: str, purchase: str, usd: float) -> PriceRow:
        facts = None if machine.startswith(ACCELERATED_PREFIX) else MachineFacts()  # the API states no size
        return PriceRow("azure", self.region, machine, purchase, usd, self.day, self.source, facts=facts)


def find_purchase_kind(item: Json) -> str | None:
    """Return the purchase of an item for a machine with Linux or Windows; None for other items."""
    names = _item_names(item)
    if NOT_MACHINE.search(names) or item.get("unitOfMeasure") != "1 Hour" or item.get("tierMinimumUnits"):
        return None
    if not MACHINE_NAME.match(str(item.get("armSkuName") or "")) or "Low Priority" in names:
        return None
    if item.get("type") == "Reservation":
        term = TERMS.get(str(item.get("reservationTerm")))
        return f"reserved_{term}" if term and "Spot" not in names and not WINDOWS.search(names) else None
    if item.get("type") != "Consumption":
        return None
    return "spot" if "Spot" in names else "on_demand"


def find_machine_item(item: Json) -> str:
    """Return the machine of an item, with ``:windows`` if its price includes Windows."""
    machine = str(item["armSkuName"])
    return f"{machine}:windows" if WINDOWS.search(_item_names(item)) else machine


def _item_names(item: Json) -> str:
    return " ".join(str(item.get(key) or "") for key in ("productName", "skuName", "meterName"))


def _preference(item: Json) -> tuple[bool, str]:
    """Return the sort key of an item: the primary meter first, then the latest start date."""
    return (item.get("isPrimaryMeterRegion") is not False, str(item.get("effectiveStartDate") or ""))


def _amount_usd(item: Json) -> float | None:
    amount = item.get("retailPrice")
    if item.get("currencyCode") != "USD" or isinstance(amount, bool) or not isinstance(amount, (int, float)):
        return None
    return float(amount)


def _find_paid_amounts(items: dict[PartTier, PartItem]) -> dict[tuple[str, str], float]:
    """Return USD per hour or use of each part: of the first tier that is not free."""
    tiers: dict[tuple[str, str], dict[float, float]] = defaultdict(dict)
    for (name, unit, tier_start), part_item in items.items():
        if part_item.usd is not None:
            tiers[name, unit][tier_start] = part_item.usd
    paid = {part: find_first_paid(amounts) for part, amounts in tiers.items()}
    return {part: usd for part, usd in paid.items() if usd is not None}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _link_without_query(link: object) -> str:
    parts = urlsplit(str(link))
    return f"{parts.scheme}://{parts.netloc}{parts.path}"[:200]
