"""Azure's managed disks bill by tier: the smallest that holds the size.

Sizes and tiers: learn.microsoft.com, "Azure managed disk types", the table of Premium SSD sizes.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet.catalog import Price
from gpufleet.cost import PriceBook, price_resources
from gpufleet.cost.pricing.pricers.azure.disk import managed_disk_tier_number
from gpufleet.engine import StateResource

PUBLISHED = {
    "1": 4, "2": 8, "3": 16, "4": 32, "6": 64, "10": 128, "15": 256, "20": 512, "30": 1024, "40": 2048,
    "50": 4096, "60": 8192, "70": 16384, "80": 32767,
}  # fmt: skip
ORDER = list(PUBLISHED)


@pytest.mark.parametrize("number", ORDER)
def test_disk_tier_is_chosen_exactly_by_its_size_limit(number):
    assert managed_disk_tier_number(Decimal(PUBLISHED[number])) == number
    larger = ORDER[min(ORDER.index(number) + 1, len(ORDER) - 1)]
    assert managed_disk_tier_number(Decimal(PUBLISHED[number] + 1)) == larger


def test_smallest_disk_has_the_smallest_tier():
    assert managed_disk_tier_number(Decimal(1)) == "1"


@pytest.mark.parametrize(
    ("sku", "gib", "item"),
    [
        ("Premium_LRS", 64, "premium-ssd-p6"),
        ("Premium_LRS", 65, "premium-ssd-p10"),
        ("Premium_LRS", 128, "premium-ssd-p10"),
        ("Premium_LRS", 129, "premium-ssd-p15"),
        ("StandardSSD_LRS", 65, "standard-ssd-e10"),
        ("Standard_LRS", 32, "standard-hdd-s4"),
    ],
)
def test_disk_is_priced_as_its_tier(sku, gib, item):
    """Every tier has a price of its own here, so that a neighbour's would show."""
    kind = "azure-native:compute:Disk"
    inputs = {"location": "eastus", "diskSizeGB": gib, "sku": {"name": sku}, "creationData": {}}
    disk = StateResource(f"urn:pulumi:prod::p::{kind}::d", kind, "d", inputs, {})

    def each(cloud, region, of, purchase):
        usd = sum(map(ord, of)) / 1000
        return Price(usd, "disk", "2026-07-06", "written by hand", "high", region, purchase)

    (charge,) = price_resources([disk], PriceBook(each, each)).charges
    assert (charge.item, charge.quantity.expected, charge.hours_per_month) == (item, 1, 730)
    assert charge.usd_per_hour.expected == Decimal(str(sum(map(ord, item)) / 1000))
