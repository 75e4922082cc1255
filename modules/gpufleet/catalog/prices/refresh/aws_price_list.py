"""Amazon's price list: on-demand prices, and reservations with upfront and hourly amounts.

``marketoption`` is required: without it the list contains Capacity Block products at 0.00 per hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gpufleet.boundary import decode_json
from gpufleet.catalog.prices.refresh import aws, aws_file_machine
from gpufleet.catalog.prices.refresh.source import (
    RefreshScope,
    RegionPrices,
    SourceUnavailable,
    build_region_prices,
)
from gpufleet.catalog.prices.row import MachineFacts, PriceRow

PRODUCT_FILTERS = {
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "preInstalledSw": "NA",
    "marketoption": "OnDemand",
    "licenseModel": "No License required",
}
LEASE_TERMS = {"1yr": "1y", "3yr": "3y"}
Product = dict[str, Any]


@dataclass
class AwsPriceListSource:
    """The source: ``pricing.get_products``."""

    clients: aws.ClientFactory = aws.create_aws_client
    offerings: aws.RegionMachineTypes = field(default_factory=aws.RegionMachineTypes)
    source_name: str = "aws-price-list"
    cloud_name: str = "aws"

    def fetch_region_prices(self, region: str, scope: RefreshScope) -> RegionPrices:
        """Return the list prices of a region's machines with each operating system."""
        reader = AwsProductReader(region, scope.day.isoformat(), self.source_name)
        with aws.translate_boto_errors("pricing:GetProducts", self.source_name):
            products = [
                product
                for system in aws_file_machine.SUFFIX_BY_SYSTEM
                for product in self._fetch_products(region, system)
            ]
            offered_types = self.offerings.fetch_machine_types(region) if products else None
        return build_region_prices(list(reader.build_price_rows(products, offered_types)), reader.left_out)

    def _fetch_products(self, region: str, system: str) -> Iterator[Product]:
        field_values = {**PRODUCT_FILTERS, "regionCode": region, "operatingSystem": system}
        filters = [
            {"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in field_values.items()
        ]
        call = self.clients("pricing", aws.PRICING_REGION).get_products
        parameters = {
            "ServiceCode": "AmazonEC2",
            "Filters": filters,
            "FormatVersion": "aws_v1",
            "MaxResults": 100,
        }
        for text in aws.iterate_page_items(call, "NextToken", "PriceList", self.source_name, **parameters):
            product = decode_json(str(text), self.source_name)  # an InputError is a bad page to aws.faults
            if not isinstance(product, dict):
                raise SourceUnavailable(
                    f"{self.source_name}: the API returned a product that is not a JSON object"
                )
            yield product


class AwsProductReader:
    """Builds price rows from a region's products. ``left_out`` lists the others with reasons."""

    def __init__(self, region: str, day: str, source: str) -> None:
        self.region = region
        self.day = day
        self.source = source
        self.left_out: list[str] = []

    def build_price_rows(
        self, products: list[Product], offered_types: frozenset[str] | None
    ) -> Iterator[PriceRow]:
        """Yield the prices of each machine; a machine with two list prices is left out."""
        machines: dict[str, list[Product]] = {}
        for product in products:
            attributes = product.get("product", {}).get("attributes", {})
            if is_matching_product(attributes, self.region):
                suffix = aws_file_machine.SUFFIX_BY_SYSTEM[attributes["operatingSystem"]]
                machines.setdefault(f"{attributes['instanceType']}{suffix}", []).append(product)
        for name, machine_products in sorted(machines.items()):
            facts, is_offered = (
                parse_machine_facts(machine_products[0]),
                None if offered_types is None else name.partition(":")[0] in offered_types,
            )
            prices = list(
                dict.fromkeys(price for product in machine_products for price in parse_product_terms(product))
            )
            for purchase, upfront in dict.fromkeys((price[0], price[1]) for price in prices):
                same_kind = [price for price in prices if price[:2] == (purchase, upfront)]
                if len(same_kind) > 1:
                    self.left_out.append(
                        f"aws {self.region} {name} {purchase}: {len(same_kind)} prices for one purchase option"
                    )
                    continue
                _, _, fixed, hourly = same_kind[0]
                hours = aws.TERM_HOURS.get(purchase[-2:], 1)
                yield PriceRow(
                    "aws", self.region, name, purchase, round(hourly + fixed / hours, 6), self.day, self.source,
                    upfront=upfront, upfront_usd=fixed, facts=facts, offered=is_offered,
                )  # fmt: skip


def is_matching_product(attributes: dict[str, Any], region: str) -> bool:
    """Return whether a product matches the filters: the API ignores filters that it does not know."""
    expected = {**PRODUCT_FILTERS, "regionCode": region}
    is_named = aws_file_machine.MACHINE_NAME.match(str(attributes.get("instanceType") or ""))
    return (
        bool(is_named)
        and attributes.get("operatingSystem") in aws_file_machine.SUFFIX_BY_SYSTEM
        and all(attributes.get(key) == expected[key] for key in expected)
    )


def parse_product_terms(product: Product) -> Iterator[tuple[str, Any, float, float]]:
    """Yield purchase, payment option, upfront and hourly amount of each term."""
    product_terms = product.get("terms", {})
    for term in product_terms.get("OnDemand", {}).values():
        fixed, hourly = parse_term_amounts(term)
        if hourly is not None and not fixed:
            yield "on_demand", "none", 0.0, hourly
    for term in product_terms.get("Reserved", {}).values():
        attributes = term.get("termAttributes", {})
        lease, upfront = (
            LEASE_TERMS.get(attributes.get("LeaseContractLength")),
            aws.UPFRONT_OPTIONS.get(attributes.get("PurchaseOption")),
        )
        fixed, hourly = parse_term_amounts(term)
        if attributes.get("OfferingClass") == "standard" and lease and upfront and (fixed or hourly):
            yield f"reserved_{lease}", upfront, fixed, hourly or 0.0


def parse_term_amounts(term: dict[str, Any]) -> tuple[float, float | None]:
    """Return the upfront and the hourly amount of a term in USD."""
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


def parse_machine_facts(product: Product) -> MachineFacts | None:
    """Return the machine's facts, None if the list does not state its accelerators."""
    attributes = product["product"]["attributes"]
    keys = ("instanceFamily", "vcpu", "memory", "gpu", "physicalProcessor")
    return aws_file_machine.build_machine_facts(*(str(attributes.get(key) or "") for key in keys))
