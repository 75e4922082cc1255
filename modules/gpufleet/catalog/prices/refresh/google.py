"""Google's Cloud Billing Catalog: SKUs of Compute Engine, combined into machines, and of the services with parts.

The list of a service covers all regions; a process reads it once. Services are found by their display name. A machine
without a price for each component in a region and purchase is left out there and reported. The price includes local
SSD that a machine always has (A2 Ultra, A3), as the embedded prices do: a3-highgpu-1g of us-central1 is 11.06125 only
with its 750 GiB. Attachable cards and disks are parts of their own.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from gpufleet.boundary import Json
from gpufleet.catalog import data_file
from gpufleet.catalog.attachable_card import get_card_part
from gpufleet.catalog.entry import Machine
from gpufleet.catalog.prices import snapshot
from gpufleet.catalog.prices.refresh.google_parts import GooglePartCollector, list_part_services
from gpufleet.catalog.prices.refresh.google_sku import (
    ADDRESS_DESCRIPTIONS,
    DISK_DESCRIPTIONS,
    parse_sku_components,
)
from gpufleet.catalog.prices.refresh.http_client import HttpClient
from gpufleet.catalog.prices.refresh.source import (
    MissingCredentials,
    RefreshScope,
    RegionPrices,
    RequestRejected,
    SourceUnavailable,
    build_region_prices,
)
from gpufleet.catalog.prices.row import MachineFacts, PriceRow

BASE_URL = "https://cloudbilling.googleapis.com/v1"
COMPUTE_SERVICE_ID = "6F81-5844-456A"  # Compute Engine, in services.list
COMPUTE_SERVICE = "Compute Engine"
MAX_PAGES = 100  # some 32,000 SKUs, 5,000 a page
SERVICE_ID = re.compile(r"[0-9A-F]{4}(?:-[0-9A-F]{4}){2}")
# By machine series: the billed family of cores and memory, the card, GiB of local SSD per card.
# a3-ultragpu and a4-highgpu are missing: no price list here states what Google bills for their local SSD.
MACHINE_SERIES = {
    "a2-highgpu": ("a2", "a100", 0),
    "a2-megagpu": ("a2", "a100", 0),
    "a2-ultragpu": ("a2", "a100-80gb", 375),
    "a3-highgpu": ("a3", "h100", 750),
    "a3-megagpu": ("a3plus", "h100-mega", 750),
    "g2-standard": ("g2", "l4", 0),
    "g4-standard": ("g4", "rtx-pro-6000", 0),
    "n1-standard": ("n1", "", 0),
}
# Families of machines without accelerators whose price is that of their cores and memory. Missing: M2, which needs an
# upgrade premium; Z3 and all -lssd types, which bill local SSD of their own family.
ORDINARY_FAMILIES = frozenset({
    "e2", "n1", "n2", "n2d", "n4", "n4a", "n4d", "c2", "c2d", "c3", "c3d", "c4", "c4a", "c4d", "c4n", "t2a", "t2d",
    "h3", "m1", "m3",
})  # fmt: skip
# Shared cores bill a part of a core (cloud.google.com/compute/vm-instance-pricing, E2 shared-core machine types).
SHARED_CORES = {"e2-micro": 0.25, "e2-small": 0.5, "e2-medium": 1.0}
PARTS = {  # by kind: names and unit
    "disk": (tuple(DISK_DESCRIPTIONS.values()), "gib"),
    "address": (tuple(ADDRESS_DESCRIPTIONS.values()), "address"),
}
ATTACHABLE_CARDS = {model.lower(): get_card_part(model) for model in ("T4", "V100")}
PURCHASES = ("on_demand", "spot", "reserved_1y", "reserved_3y", "dws_flex")
ComponentPrices = dict[tuple[str, str, str], set[float]]  # (kind, family, purchase) -> what SKUs say


@dataclass
class GoogleBillingSource:
    """The source. It needs an API key or a token of any project; it buys nothing and reads no bill."""

    http: HttpClient = field(default_factory=HttpClient)
    base_url: str = BASE_URL
    source_name: str = "gcp-billing-catalog"
    cloud_name: str = "gcp"
    _regions: dict[str, ComponentPrices] | None = None
    _parts: GooglePartCollector = field(default_factory=GooglePartCollector)
    _missing_services: tuple[str, ...] = ()

    def fetch_region_prices(self, region: str, scope: RefreshScope) -> RegionPrices:
        """Return the prices of a region's machines and parts."""
        if self._regions is None:
            self._regions = self._fetch_all_prices()
        day = scope.day.isoformat()
        pricer = GoogleMachinePricer(region, self._regions.get(region, {}), day, self.source_name)
        rows = list(pricer.build_price_rows())
        part_rows, left_out = self._parts.build_price_rows(region, day, self.source_name)
        missing = [f"gcp {region} {service}: no such service" for service in self._missing_services]
        return build_region_prices([*rows, *part_rows], [*pricer.left_out, *left_out, *missing])

    def _fetch_all_prices(self) -> dict[str, ComponentPrices]:
        """Read the SKUs of all services; return the prices of machines' components by region."""
        self._parts = GooglePartCollector()  # an interrupted read may have left some
        ids = self.fetch_service_ids()
        regions = collect_component_prices(
            self._parts.add_skus(COMPUTE_SERVICE, self.fetch_skus(COMPUTE_SERVICE_ID))
        )
        services = sorted(list_part_services() - {COMPUTE_SERVICE})
        for service in filter(ids.get, services):
            for _ in self._parts.add_skus(service, self.fetch_skus(ids[service])):
                pass  # the collector keeps what it knows
        self._missing_services = tuple(service for service in services if service not in ids)
        return regions

    def fetch_service_ids(self) -> dict[str, str]:
        """Return the ids of all services by display name."""
        return {
            str(service.get("displayName")): str(service.get("serviceId"))
            for service in self._fetch_entries(f"{self.base_url}/services", "services", {})
            if SERVICE_ID.fullmatch(str(service.get("serviceId")))
        }

    def fetch_skus(self, service_id: str) -> Iterator[Json]:
        """Yield every SKU of a service, page by page."""
        url = f"{self.base_url}/services/{service_id}/skus"
        return self._fetch_entries(url, "skus", {"currencyCode": "USD"})

    def _fetch_entries(self, url: str, key: str, query: dict[str, str]) -> Iterator[Json]:
        headers, token, seen_tokens = read_auth_headers(), "", set[str]()
        for _ in range(MAX_PAGES):
            page = self._fetch_page(
                url, {**query, "pageSize": "5000", **({"pageToken": token} if token else {})}, headers
            )
            entries = page.get(key, [])
            if not isinstance(entries, list):
                raise SourceUnavailable(f"{self.source_name}: the API returned a page without {key}")
            yield from (entry for entry in entries if isinstance(entry, dict))
            token = str(page.get("nextPageToken") or "")
            if not token:
                return
            if token in seen_tokens:
                raise SourceUnavailable(f"{self.source_name}: the API repeats a page")
            seen_tokens.add(token)
        raise SourceUnavailable(f"{self.source_name}: the API returned more than {MAX_PAGES} pages")

    def _fetch_page(self, url: str, query: dict[str, str], headers: dict[str, str]) -> Json:
        try:
            return self.http.get_json(url, query, headers)
        except RequestRejected as fault:  # it rejects all requests or none: key, token or quota
            raise MissingCredentials(fault.message, hint=CREDENTIALS_HINT) from None


CREDENTIALS_HINT = (
    "set GOOGLE_API_KEY (a key with the Cloud Billing API enabled) or GOOGLE_OAUTH_ACCESS_TOKEN"
)


def read_auth_headers() -> dict[str, str]:
    """Return the header with the credentials: never part of a URL, so never in a log."""
    token, key = os.environ.get("GOOGLE_OAUTH_ACCESS_TOKEN"), os.environ.get("GOOGLE_API_KEY")
    if token:
        return {"Authorization": f"Bearer {token.strip()}"}
    if key:
        return {"X-Goog-Api-Key": key.strip()}
    raise MissingCredentials("no API key and no token for Google's billing catalogue", hint=CREDENTIALS_HINT)


def collect_component_prices(skus: Iterator[Json]) -> dict[str, ComponentPrices]:
    """Return the prices of all components by region."""
    prices_by_region: dict[str, ComponentPrices] = defaultdict(lambda: defaultdict(set))
    for sku in skus:
        for region, component in parse_sku_components(sku):
            prices_by_region[region][component.kind, component.family, component.purchase].add(component.usd)
    return {region: dict(prices) for region, prices in prices_by_region.items()}


class GoogleMachinePricer:
    """Combines components into a region's machines. ``left_out`` lists machines without a price, with reasons."""

    def __init__(self, region: str, prices: ComponentPrices, day: str, source: str) -> None:
        self.region = region
        self.prices = prices
        self.day = day
        self.source = source
        self.left_out: list[str] = []

    def build_price_rows(self) -> Iterator[PriceRow]:
        """Yield machines, then the parts that are sold separately."""
        for (cloud, name), machine in sorted(data_file.load_machines().items()):
            if cloud == "gcp":
                for purchase in PURCHASES:
                    yield from self._build_machine_row(name, machine, purchase)
        for machine in list_ordinary_machines():
            for purchase in PURCHASES:
                yield from self._build_machine_row(machine.name, machine, purchase)
        for kind, (items, unit) in PARTS.items():
            for item in items:
                yield from self._build_part_row(item, (kind, item, "on_demand"), unit)
        for purchase in PURCHASES:
            yield from self._build_part_row("local-ssd", ("ssd", "", purchase), "gib")
            for card, item in ATTACHABLE_CARDS.items():
                yield from self._build_part_row(item, ("card", card, purchase), "accelerator")

    def _build_machine_row(self, name: str, machine: Machine, purchase: str) -> Iterator[PriceRow]:
        components = machine_component_amounts(name, machine)
        if not components and purchase == "on_demand":
            self.left_out.append(f"gcp {self.region} {name}: its components are unknown")
        missing = [key for key in components if (*key, purchase) not in self.prices]
        if missing or not components:
            if any(
                kind != "ssd" and (kind, family) not in missing for kind, family in components
            ) and self._is_card_sold(components):
                self.left_out.append(
                    f"gcp {self.region} {name} {purchase}: no SKU of {_format_components(missing)}"
                )
            return
        ambiguous = [key for key in components if len(self.prices[*key, purchase]) > 1]
        if ambiguous:
            self.left_out.append(
                f"gcp {self.region} {name} {purchase}: two prices of {_format_components(ambiguous)}"
            )
            return
        usd = sum(amount * min(self.prices[*key, purchase]) for key, amount in components.items())
        facts = None
        if not machine.accelerators:
            facts = MachineFacts(machine.vcpus, machine.memory_gib, machine.arch)
        yield replace(self._build_row(name, purchase, usd), facts=facts)

    def _is_card_sold(self, components: dict[tuple[str, str], float]) -> bool:
        """Return whether the region sells the machine's card at all; else the machine is not reported."""
        cards = [key for key in components if key[0] == "card"]
        return not cards or any((*key, purchase) in self.prices for key in cards for purchase in PURCHASES)

    def _build_part_row(self, item: str, key: tuple[str, str, str], unit: str) -> Iterator[PriceRow]:
        prices = self.prices.get(key, set())
        if len(prices) > 1:
            self.left_out.append(f"gcp {self.region} {item} {key[2]}: two prices")
        elif prices:
            yield PriceRow(
                "gcp", self.region, item, key[2], round(min(prices), 9), self.day, self.source, kind="part", unit=unit
            )  # fmt: skip

    def _build_row(self, name: str, purchase: str, usd: float) -> PriceRow:
        return PriceRow("gcp", self.region, name, purchase, round(usd, 6), self.day, self.source)


def machine_component_amounts(name: str, machine: Machine) -> dict[tuple[str, str], float]:
    """Return the components of a machine with amounts; empty for an unknown series."""
    series = MACHINE_SERIES.get("-".join(name.split("-")[:2]))
    if series is None:
        return ordinary_component_amounts(name, machine)
    family, card, ssd = series
    components = {
        ("core", family): float(machine.vcpus),
        ("ram", family): machine.memory_gib,
        ("card", card): machine.accelerator_count,
        ("ssd", ""): ssd * machine.accelerator_count,
    }
    return {key: amount for key, amount in components.items() if amount}


@cache
def list_ordinary_machines() -> tuple[Machine, ...]:
    """Return the machines without accelerators that the embedded snapshot knows and machines.csv does not list."""
    listed = {name for cloud, name in data_file.load_machines() if cloud == "gcp"}
    machines = (
        snapshot.find_sized_machine("gcp", name)
        for name in sorted(snapshot.list_sized_machines("gcp") - listed)
    )
    return tuple(
        machine for machine in machines if machine and ordinary_component_amounts(machine.name, machine)
    )


def ordinary_component_amounts(name: str, machine: Machine) -> dict[tuple[str, str], float]:
    """Return cores and memory of a machine without accelerators; empty if its price has other components."""
    family = name.partition("-")[0]
    if name in {"f1-micro", "g1-small"}:
        return {("core", family): 1.0}  # one SKU for the machine
    if family not in ORDINARY_FAMILIES or "lssd" in name or machine.accelerators:
        return {}
    cores = SHARED_CORES.get(name, float(machine.vcpus))
    return {("core", family): cores, ("ram", family): machine.memory_gib}


def _format_components(keys: list[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} {family}".strip() for kind, family in keys)
