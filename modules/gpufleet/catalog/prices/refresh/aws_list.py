"""Amazon's price list: on-demand, and reservations with what is due at the start and what every hour.

``marketoption`` must be asked for: without it a Capacity Block's product, 0.00 an hour, stands beside the machine's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gpufleet.boundary import decode_json
from gpufleet.catalog.prices.refresh import aws
from gpufleet.catalog.prices.refresh.feed import Batch, Scope, Unreachable, sound
from gpufleet.catalog.prices.row import Facts, PriceRow

FAMILIES = ("GPU instance", "Machine Learning ASIC Instances")
WANTED = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "preInstalledSw": "NA",
    "marketoption": "OnDemand",
}
LEASES = {"1yr": "1y", "3yr": "3y"}
MEMORY = re.compile(r"([\d,.]+) GiB\Z")
Product = dict[str, Any]


@dataclass
class AwsList:
    """The source: ``pricing.get_products``."""

    clients: aws.Clients = aws.client
    offered: aws.Offered = field(default_factory=aws.Offered)
    name: str = "aws-price-list"
    cloud: str = "aws"

    def read(self, region: str, scope: Scope) -> Batch:
        """Return the list prices of a region's machines with accelerators."""
        reader = Reader(region, scope.day.isoformat(), self.name)
        with aws.faults("pricing:GetProducts", self.name):
            products = [product for family in FAMILIES for product in self._products(region, family)]
            there = self.offered.types(region) if products else None
        return sound(list(reader.rows(products, there)), reader.left_out)

    def _products(self, region: str, family: str) -> Iterator[Product]:
        wanted = {**WANTED, "regionCode": region, "instanceFamily": family}
        filters = [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in wanted.items()]
        call = self.clients("pricing", aws.HOME).get_products
        given = {"ServiceCode": "AmazonEC2", "Filters": filters, "FormatVersion": "aws_v1", "MaxResults": 100}
        for text in aws.items(call, "NextToken", "PriceList", self.name, **given):
            product = decode_json(str(text), self.name)  # an InputError is a bad page to aws.faults
            if not isinstance(product, dict):
                raise Unreachable(f"{self.name}: a product that is no object")
            yield product


class Reader:
    """Makes prices of a region's products. ``left_out`` says which not, and why."""

    def __init__(self, region: str, day: str, source: str) -> None:
        self.region = region
        self.day = day
        self.source = source
        self.left_out: list[str] = []

    def rows(self, products: list[Product], offered: frozenset[str] | None) -> Iterator[PriceRow]:
        """Yield every machine's prices; one with two list prices is left out."""
        machines: dict[str, list[Product]] = {}
        for product in products:
            attributes = product.get("product", {}).get("attributes", {})
            if fits(attributes, self.region):
                machines.setdefault(str(attributes["instanceType"]), []).append(product)
        for name, found in sorted(machines.items()):
            facts, there = facts_of(found[0]), None if offered is None else name in offered
            prices = list(dict.fromkeys(price for product in found for price in terms(product)))
            for purchase, upfront in dict.fromkeys((price[0], price[1]) for price in prices):
                same = [price for price in prices if price[:2] == (purchase, upfront)]
                if len(same) > 1:
                    self.left_out.append(
                        f"aws {self.region} {name} {purchase}: {len(same)} prices of one kind"
                    )
                    continue
                _, _, fixed, hourly = same[0]
                hours = aws.TERM_HOURS.get(purchase[-2:], 1)
                yield PriceRow(
                    "aws", self.region, name, purchase, round(hourly + fixed / hours, 6), self.day, self.source,
                    upfront=upfront, upfront_usd=fixed, facts=facts, offered=there,
                )  # fmt: skip


def fits(attributes: dict[str, Any], region: str) -> bool:
    """Check again what was asked for: a filter that the API did not know would have let everything through."""
    asked = {**WANTED, "regionCode": region}
    return bool(attributes.get("instanceType")) and all(attributes.get(key) == asked[key] for key in asked)


def terms(product: Product) -> Iterator[tuple[str, Any, float, float]]:
    """Yield purchase, upfront, what is due at the start, and what every hour, of a product's terms."""
    found = product.get("terms", {})
    for term in found.get("OnDemand", {}).values():
        fixed, hourly = amounts(term)
        if hourly is not None and not fixed:
            yield "on_demand", "none", 0.0, hourly
    for term in found.get("Reserved", {}).values():
        said = term.get("termAttributes", {})
        lease, upfront = (
            LEASES.get(said.get("LeaseContractLength")),
            aws.UPFRONT.get(said.get("PurchaseOption")),
        )
        fixed, hourly = amounts(term)
        if said.get("OfferingClass") == "standard" and lease and upfront and (fixed or hourly):
            yield f"reserved_{lease}", upfront, fixed, hourly or 0.0


def amounts(term: dict[str, Any]) -> tuple[float, float | None]:
    """Return what a term takes at the start and what it takes each hour, in USD."""
    fixed, hourly = 0.0, None
    for dimension in term.get("priceDimensions", {}).values():
        usd = dimension.get("pricePerUnit", {}).get("USD")
        if usd is None:
            continue
        if dimension.get("unit") == "Quantity":
            fixed += float(usd)
        elif dimension.get("unit") == "Hrs":
            hourly = (hourly or 0.0) + float(usd)
    return fixed, hourly


def facts_of(product: Product) -> Facts | None:
    """Return what the list says about the machine; nothing where it does not say how many accelerators."""
    said = product["product"]["attributes"]
    memory = MEMORY.match(str(said.get("memory", "")))
    try:
        cards, vcpus = float(said["gpu"]), int(said["vcpu"])
    except (KeyError, ValueError):
        return None
    arm = "Graviton" in str(said.get("physicalProcessor", ""))
    gib = float(memory[1].replace(",", "")) if memory else 0.0
    return Facts(vcpus, gib, "arm64" if arm else "x86_64", "", cards)
