"""Google's Cloud Billing Catalog: all SKUs of Compute Engine, put together into machines.

One list serves all regions; it is read once a process. A machine whose parts do not all have a price in a region,
bought in that way, is left out there and named. Local SSD that a machine always comes with (A2 Ultra, A3) is in its
price, as it is in the embedded ones: a3-highgpu-1g of us-central1 is 11.06125 only with its 750 GiB. What one may
attach is a part of its own.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpufleet.catalog import table
from gpufleet.catalog.model import Machine
from gpufleet.catalog.prices.refresh.feed import Batch, NoCredentials, Refused, Scope, Unreachable, sound
from gpufleet.catalog.prices.refresh.google_skus import Sku, components
from gpufleet.catalog.prices.refresh.web import Web
from gpufleet.catalog.prices.row import PriceRow

BASE = "https://cloudbilling.googleapis.com/v1"
COMPUTE = "6F81-5844-456A"  # Compute Engine, in services.list
PAGES = 100  # some 32,000 SKUs, 5,000 a page
# Of each series of machines: whose cores and memory it is billed as, which card it carries, GiB of local SSD a card.
# a3-ultragpu is not here: no source at hand says how much local SSD is in it, and Google bills it.
SERIES = {
    "a2-highgpu": ("a2", "a100", 0),
    "a2-megagpu": ("a2", "a100", 0),
    "a2-ultragpu": ("a2", "a100-80gb", 375),
    "a3-highgpu": ("a3", "h100", 750),
    "a3-megagpu": ("a3plus", "h100-mega", 750),
    "g2-standard": ("g2", "l4", 0),
    "g4-standard": ("g4", "rtx-pro-6000", 0),
    "n1-standard": ("n1", "", 0),
}
ATTACHED = {"t4": "accelerator:nvidia-tesla-t4"}
PURCHASES = ("on_demand", "spot", "reserved_1y", "reserved_3y", "dws_flex")
Prices = dict[tuple[str, str, str], set[float]]  # (kind, family, purchase) -> what SKUs say


@dataclass
class Google:
    """The source. An API key or a token is needed, of any project; it buys nothing and sees no bill."""

    web: Web = field(default_factory=Web)
    base: str = BASE
    name: str = "gcp-billing-catalog"
    cloud: str = "gcp"
    _regions: dict[str, Prices] | None = None

    def read(self, region: str, scope: Scope) -> Batch:
        """Return the prices of a region's machines."""
        if self._regions is None:
            self._regions = gathered(self.skus())
        made = Maker(region, self._regions.get(region, {}), scope.day.isoformat(), self.name)
        return sound(list(made.rows()), made.left_out)

    def skus(self) -> Iterator[Sku]:
        """Yield every SKU of Compute Engine, page by page."""
        headers, token, seen = credentials(), "", set[str]()
        for _ in range(PAGES):
            page = self._page(token, headers)
            skus = page.get("skus", [])
            if not isinstance(skus, list):
                raise Unreachable(f"{self.name}: a page without skus")
            yield from (sku for sku in skus if isinstance(sku, dict))
            token = str(page.get("nextPageToken") or "")
            if not token:
                return
            if token in seen:
                raise Unreachable(f"{self.name}: its pages go round in a circle")
            seen.add(token)
        raise Unreachable(f"{self.name}: more than {PAGES} pages")

    def _page(self, token: str, headers: dict[str, str]) -> Sku:
        query = {"currencyCode": "USD", "pageSize": "5000", **({"pageToken": token} if token else {})}
        try:
            return self.web.json(f"{self.base}/services/{COMPUTE}/skus", query, headers)
        except Refused as fault:  # it refuses all or nothing: key, token or quota
            raise NoCredentials(fault.message, hint=HINT) from None


HINT = "set GOOGLE_API_KEY (a key with the Cloud Billing API enabled) or GOOGLE_OAUTH_ACCESS_TOKEN"


def credentials() -> dict[str, str]:
    """Return the header that says who asks: never part of an address, so never in a log."""
    token, key = os.environ.get("GOOGLE_OAUTH_ACCESS_TOKEN"), os.environ.get("GOOGLE_API_KEY")
    if token:
        return {"Authorization": f"Bearer {token.strip()}"}
    if key:
        return {"X-Goog-Api-Key": key.strip()}
    raise NoCredentials("no API key and no token for Google's billing catalogue", hint=HINT)


def gathered(skus: Iterator[Sku]) -> dict[str, Prices]:
    """Return what every part costs, by region."""
    found: dict[str, Prices] = defaultdict(lambda: defaultdict(set))
    for sku in skus:
        for region, part in components(sku):
            found[region][part.kind, part.family, part.purchase].add(part.usd)
    return {region: dict(prices) for region, prices in found.items()}


class Maker:
    """Puts a region's machines together. ``left_out`` says which cannot be, and why."""

    def __init__(self, region: str, prices: Prices, day: str, source: str) -> None:
        self.region = region
        self.prices = prices
        self.day = day
        self.source = source
        self.left_out: list[str] = []

    def rows(self) -> Iterator[PriceRow]:
        """Yield machines, then the parts that are sold apart."""
        for (cloud, name), machine in sorted(table.machines().items()):
            if cloud == "gcp":
                for purchase in PURCHASES:
                    yield from self._machine(name, machine, purchase)
        for purchase in PURCHASES:
            yield from self._part("local-ssd", ("ssd", "", purchase), "gib")
            for card, item in ATTACHED.items():
                yield from self._part(item, ("card", card, purchase), "accelerator")

    def _machine(self, name: str, machine: Machine, purchase: str) -> Iterator[PriceRow]:
        bill = bill_of(name, machine)
        if not bill and purchase == "on_demand":
            self.left_out.append(f"gcp {self.region} {name}: we do not know all that it is made of")
        lacking = [key for key in bill if (*key, purchase) not in self.prices]
        if lacking or not bill:
            if any(kind != "ssd" and (kind, of) not in lacking for kind, of in bill) and self._sold(bill):
                self.left_out.append(f"gcp {self.region} {name} {purchase}: no SKU of {_words(lacking)}")
            return
        several = [key for key in bill if len(self.prices[*key, purchase]) > 1]
        if several:
            self.left_out.append(f"gcp {self.region} {name} {purchase}: two prices of {_words(several)}")
            return
        usd = sum(amount * min(self.prices[*key, purchase]) for key, amount in bill.items())
        yield self._row(name, purchase, usd)

    def _sold(self, bill: dict[tuple[str, str], float]) -> bool:
        """Tell whether the machine's card is sold in the region in any way: else nobody misses the machine."""
        cards = [key for key in bill if key[0] == "card"]
        return not cards or any((*key, way) in self.prices for key in cards for way in PURCHASES)

    def _part(self, item: str, key: tuple[str, str, str], unit: str) -> Iterator[PriceRow]:
        found = self.prices.get(key, set())
        if len(found) > 1:
            self.left_out.append(f"gcp {self.region} {item} {key[2]}: two prices")
        elif found:
            yield PriceRow(
                "gcp", self.region, item, key[2], round(min(found), 9), self.day, self.source, kind="part", unit=unit
            )  # fmt: skip

    def _row(self, name: str, purchase: str, usd: float) -> PriceRow:
        return PriceRow("gcp", self.region, name, purchase, round(usd, 6), self.day, self.source)


def bill_of(name: str, machine: Machine) -> dict[tuple[str, str], float]:
    """Return the parts of a machine and how many of each; empty for a series that is not known."""
    series = SERIES.get("-".join(name.split("-")[:2]))
    if series is None:
        return {}
    family, card, ssd = series
    bill = {
        ("core", family): float(machine.vcpus),
        ("ram", family): machine.memory_gib,
        ("card", card): machine.cards,
        ("ssd", ""): ssd * machine.cards,
    }
    return {key: amount for key, amount in bill.items() if amount}


def _words(keys: list[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} {family}".strip() for kind, family in keys)
