"""Azure's Retail Prices API: open to all, paged, one query a region.

What it means by its fields, and what goes wrong (Microsoft's page "Azure Retail Prices overview", and users' threads):
savings plans stand only in 2023-01-01-preview, whose filter values are case-sensitive; a reservation's ``retailPrice``
is what the whole term costs although the unit says "1 Hour"; spot and low priority are endings of the meter's name;
Windows is an ending of the product's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from gpufleet.catalog.prices.refresh.feed import Batch, Refused, Scope, Unreachable, sound
from gpufleet.catalog.prices.refresh.web import Web
from gpufleet.catalog.prices.row import PriceRow

BASE = "https://prices.azure.com/api/retail/prices"
VERSION = "2023-01-01-preview"
PAGES = 50  # a region's N series takes one or two pages of 1,000 items
HOURS = {"1 Year": 8760, "3 Years": 26280}
TERMS = {"1 Year": "1y", "3 Years": "3y"}
NOT_LINUX = re.compile(r"Windows|Dedicated|Cloud ?Services|Promo", re.IGNORECASE)
REGION = re.compile(r"[a-z][a-z0-9]*\Z")
Item = dict[str, Any]


@dataclass
class Azure:
    """The source. ``base`` is Microsoft's address, unless there is a stand-in."""

    web: Web = field(default_factory=Web)
    base: str = BASE
    name: str = "azure-retail-prices"
    cloud: str = "azure"

    def read(self, region: str, scope: Scope) -> Batch:
        """Return the prices of a region's N series: the machines with accelerators."""
        if not REGION.match(region):
            raise Refused(f"{region!r} is no region of Azure's")
        reader = Reader(region, scope.day.isoformat(), self.name)
        rows = list(reader.rows(self.items(region)))
        return sound(rows, reader.left_out)

    def items(self, region: str) -> Iterator[Item]:
        """Yield what the API lists, page by page; pages that go round in a circle end the region."""
        query: dict[str, str] | None = {"api-version": VERSION, "$filter": wanted(region)}
        url, seen = self.base, set[str]()
        for _ in range(PAGES):
            page = self.web.json(url, query)
            items = page.get("Items")
            if not isinstance(items, list):
                raise Unreachable(f"{self.name}: a page without Items")
            yield from (item for item in items if isinstance(item, dict))
            following = page.get("NextPageLink")
            if not following:
                return
            if following in seen or not self._ours(following):
                raise Unreachable(f"{self.name}: the next page is {_place(following)}, which cannot be")
            seen.add(following)
            url, query = following, None
        raise Unreachable(f"{self.name}: more than {PAGES} pages for {region}")

    def _ours(self, link: str) -> bool:
        """Tell whether a link stays where it came from; Microsoft's name the port, 443."""
        there, here = urlsplit(link), urlsplit(self.base)
        return (there.scheme, there.hostname) == (here.scheme, here.hostname)


def wanted(region: str) -> str:
    """Return the filter for a region's N series. Its values are case-sensitive."""
    return (
        f"serviceName eq 'Virtual Machines' and armRegionName eq '{region}'"
        " and contains(armSkuName, 'Standard_N')"
    )


class Reader:
    """Makes prices of a region's items. ``left_out`` says which not, and why."""

    def __init__(self, region: str, day: str, source: str) -> None:
        self.region = region
        self.day = day
        self.source = source
        self.left_out: list[str] = []

    def rows(self, items: Iterable[Item]) -> Iterator[PriceRow]:
        """Yield one price for each machine and way to buy."""
        chosen: dict[tuple[str, str], Item] = {}
        for item in items:
            purchase = purchase_of(item)
            if purchase and item.get("armRegionName") == self.region and self._now(item):
                key = (str(item["armSkuName"]), purchase)
                chosen[key] = max(chosen.get(key, item), item, key=_rank)
        for (machine, purchase), item in sorted(chosen.items()):
            yield from self._rows(machine, purchase, item, chosen)

    def _now(self, item: Item) -> bool:
        """Tell whether the price is in force; the API also lists what will come and what has been."""
        starts, ends = str(item.get("effectiveStartDate") or ""), str(item.get("effectiveEndDate") or "")
        return starts[:10] <= self.day and (not ends or ends[:10] > self.day)

    def _rows(
        self, machine: str, purchase: str, item: Item, chosen: dict[tuple[str, str], Item]
    ) -> Iterator[PriceRow]:
        usd = _usd(item)
        if usd is None:
            self.left_out.append(f"azure {self.region} {machine} {purchase}: no amount of USD per hour")
            return
        if item["type"] == "Reservation":
            yield from self._reservation(machine, purchase, usd, chosen.get((machine, "on_demand")))
            return
        yield self._row(machine, purchase, usd)
        plans = item.get("savingsPlan") if purchase == "on_demand" else None
        for plan in plans if isinstance(plans, list) else ():
            term, amount = TERMS.get(str(plan.get("term"))), _usd({**item, **plan})
            if term and amount is not None:
                yield self._row(machine, f"savings_plan_{term}", amount)

    def _reservation(
        self, machine: str, purchase: str, usd: float, on_demand: Item | None
    ) -> Iterator[PriceRow]:
        """Spread the whole term's price over its hours. One below on-demand would be an hour's already."""
        full = _usd(on_demand) if on_demand else None
        if full and usd < full:
            self.left_out.append(
                f"azure {self.region} {machine} {purchase}: {usd:g} for a whole term, below an hour's {full:g}"
            )
            return
        hours = HOURS["1 Year" if purchase.endswith("1y") else "3 Years"]
        yield self._row(machine, purchase, round(usd / hours, 6))

    def _row(self, machine: str, purchase: str, usd: float) -> PriceRow:
        return PriceRow("azure", self.region, machine, purchase, usd, self.day, self.source)


def purchase_of(item: Item) -> str | None:
    """Return how an item buys a Linux machine; None for what is something else."""
    names = " ".join(str(item.get(key) or "") for key in ("productName", "skuName", "meterName"))
    if NOT_LINUX.search(names) or item.get("unitOfMeasure") != "1 Hour" or item.get("tierMinimumUnits"):
        return None
    if not str(item.get("armSkuName") or "").startswith("Standard_N") or "Low Priority" in names:
        return None
    if item.get("type") == "Reservation":
        term = TERMS.get(str(item.get("reservationTerm")))
        return f"reserved_{term}" if term and "Spot" not in names else None
    if item.get("type") != "Consumption":
        return None
    return "spot" if "Spot" in names else "on_demand"


def _rank(item: Item) -> tuple[bool, str]:
    """Prefer what is billed (the primary meter), then what came into force last."""
    return (item.get("isPrimaryMeterRegion") is not False, str(item.get("effectiveStartDate") or ""))


def _usd(item: Item) -> float | None:
    amount = item.get("retailPrice")
    if item.get("currencyCode") != "USD" or isinstance(amount, bool) or not isinstance(amount, (int, float)):
        return None
    return float(amount)


def _place(link: object) -> str:
    parts = urlsplit(str(link))
    return f"{parts.scheme}://{parts.netloc}{parts.path}"[:200]
