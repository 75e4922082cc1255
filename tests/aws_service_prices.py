"""Services of AWS, and books of list prices for tests of their pricers."""

from __future__ import annotations

from decimal import Decimal

from aws_database_cases import MONTH
from gpufleet.catalog import Price
from gpufleet.cost import PriceBook
from gpufleet.cost.inputs.usage.model import ResourceUsage, UsageFile, UsageFileEntry
from gpufleet.engine import StateResource

REGION = "us-east-1"


def make_service(type_, inputs, name="a", **fields):
    urn = f"urn:pulumi:prod::p::{type_}::{name}"
    return StateResource(urn, type_, name, {"region": REGION, **inputs}, {}, **fields)


def make_book(prices):
    """Return a price book of list prices: item: (USD, per)."""

    def find_price(cloud, region, item, purchase):
        if item not in prices or purchase != "on_demand" or region not in (REGION, "global"):
            return None
        usd, per = prices[item]
        hourly = Decimal(usd) / 730 if per == MONTH else Decimal(usd)
        return Price(hourly, "unit", "2026-07-06", "written by hand", "high", region, purchase)

    return PriceBook(find_price, find_price)


def make_usage(amounts):
    usage = ResourceUsage(amounts={key: Decimal(value) for key, value in amounts.items()})
    return UsageFile("usage.yaml", types=(UsageFileEntry("*", usage, 1),))
