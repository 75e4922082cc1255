"""What an orphan costs per hour by the catalogue's list prices; None where there is none."""

from __future__ import annotations

from decimal import Decimal

from gpufleet import catalog
from gpufleet.cost.pricing.pricers.azure.disk import managed_disk_part
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.nodes.pulumi_state import find_machine_usd_per_hour


def machine_price(
    cloud: str, region: str, machine: str, purchase: str | None, count: int = 1
) -> float | None:
    """Return the price of running machines."""
    usd = find_machine_usd_per_hour(cloud, region, machine, purchase)
    return None if usd is None else round(usd * count, 6)


def address_price(cloud: str, region: str) -> float | None:
    """Return the price of a public address."""
    return part_price(cloud, region, ADDRESS, 1)


def part_price(cloud: str, region: str, part: str, quantity: float) -> float | None:
    """Return the price of a part, such as a volume's GiB."""
    price = catalog.find_cloud_part_price(cloud, region, part)
    return None if price is None else round(price.usd_per_hour * quantity, 6)


def azure_disk_price(region: str, sku: str, size_gib: int) -> float | None:
    """Return the price of a managed disk, which Azure sells in sizes."""
    part = managed_disk_part(sku, Decimal(size_gib)) if size_gib > 0 else None
    return None if part is None else part_price("azure", region, part, 1)
