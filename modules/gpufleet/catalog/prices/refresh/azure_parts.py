"""Parts of Azure's retail prices: managed disks, addresses, NAT gateways, clusters.

Service, product, SKU and meter names are those of the retail price API as Infracost's filters use them
(infracost/infracost@95ba4f49a, internal/resources/azure: managed_disk.go, nat_gateway.go, public_ip.go,
kubernetes_cluster.go, bastion_host.go, lb.go, lb_rule.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpufleet.catalog.entry import HOURS_PER_MONTH
from gpufleet.catalog.prices.row import PriceRow

Item = dict[str, Any]
GLOBAL_REGION = "Global"  # of a price that is the same in all regions, such as a load balancer's
HOURS_PER_UNIT = {"1 Hour": 1, "1/Hour": 1, "1/Month": HOURS_PER_MONTH, "1 GB": 1}


@dataclass(frozen=True)
class AzurePartMeter:
    """Which items are a part. ``part`` may contain ``{tier}``, the group of that name in ``sku``."""

    service: str
    product: str
    sku: re.Pattern[str]
    meter: re.Pattern[str]
    measures: tuple[str, ...]
    part: str
    unit: str


def _disk_meter(product: str, letter: str, part: str) -> AzurePartMeter:
    return AzurePartMeter(
        "Storage",
        product,
        re.compile(rf"{letter}(?P<tier>\d+) LRS"),
        re.compile(rf"{letter}\d+ (?:LRS )?Disks?"),
        ("1/Month",),
        f"{part}{{tier}}",
        "disk",
    )


PART_METERS: tuple[AzurePartMeter, ...] = (
    _disk_meter("Premium SSD Managed Disks", "P", "premium-ssd-p"),
    _disk_meter("Standard SSD Managed Disks", "E", "standard-ssd-e"),
    _disk_meter("Standard HDD Managed Disks", "S", "standard-hdd-s"),
    AzurePartMeter(
        "Virtual Network",
        "IP Addresses",
        re.compile("Standard"),
        re.compile("Standard IPv4 Static Public IP"),
        ("1 Hour", "1/Hour"),
        "public_ipv4",
        "address",
    ),
    AzurePartMeter(
        "NAT Gateway",
        "NAT Gateway",
        re.compile("Standard"),
        re.compile("Standard Gateway"),
        ("1 Hour", "1/Hour"),
        "nat_gateway",
        "gateway",
    ),
    AzurePartMeter(
        "NAT Gateway",
        "NAT Gateway",
        re.compile("Standard"),
        re.compile("Standard Data Processed"),
        ("1 GB",),
        "nat_gateway:gib",
        "gib_processed",
    ),
    AzurePartMeter(
        "Azure Kubernetes Service",
        "Azure Kubernetes Service",
        re.compile("Standard"),
        re.compile("Standard Uptime SLA"),
        ("1 Hour", "1/Hour"),
        "kubernetes_cluster",
        "cluster",
    ),
)
PART_METERS += tuple(
    AzurePartMeter(
        "Azure Bastion",
        "Azure Bastion",
        re.compile(sku),
        re.compile(f"{sku} Gateway"),
        ("1 Hour", "1/Hour"),
        part,
        "host",
    )
    for sku, part in (("Basic", "bastion"), ("Standard", "bastion:standard"))
)
PART_METERS += tuple(
    AzurePartMeter(
        "Load Balancer",
        "Load Balancer",
        re.compile("Standard"),
        re.compile(meter),
        measures,
        part,
        unit,
    )
    for meter, measures, part, unit in (
        (
            "Standard Included LB Rules and Outbound Rules",
            ("1 Hour", "1/Hour"),
            "load_balancer:standard",
            "load_balancer",
        ),
        (
            "Standard Overage LB Rules and Outbound Rules",
            ("1 Hour", "1/Hour"),
            "load_balancer:standard:rule",
            "rule",
        ),
        ("Standard Data Processed", ("1 GB",), "load_balancer:gib", "gib"),
    )
)
PART_SERVICES = tuple(dict.fromkeys(meter.service for meter in PART_METERS))


def build_part_filter(region: str, service: str) -> str:
    """Return the filter for a service's items in a region or for all regions; of storage, only managed disks."""
    regions = f"(armRegionName eq '{region}' or armRegionName eq '{GLOBAL_REGION}')"
    conditions = [f"serviceName eq '{service}'", regions, "priceType eq 'Consumption'"]
    if service == "Storage":
        conditions.append("contains(productName, 'Managed Disks')")
    return " and ".join(conditions)


def find_part(item: Item) -> tuple[str, str] | None:
    """Return name and unit of the part that an item prices, None for another item."""
    sku, meter_name = str(item.get("skuName") or ""), str(item.get("meterName") or "")
    if item.get("type") != "Consumption" or item.get("tierMinimumUnits"):
        return None
    for meter in PART_METERS:
        sku_match = meter.sku.fullmatch(sku)
        if (
            sku_match
            and meter.meter.fullmatch(meter_name)
            and (item.get("serviceName"), item.get("productName")) == (meter.service, meter.product)
            and item.get("unitOfMeasure") in meter.measures
        ):
            return meter.part.format(**sku_match.groupdict()), meter.unit
    return None


def build_part_rows(
    parts: dict[tuple[str, str], tuple[Item, float]], region: str, day: str, source: str
) -> Iterator[PriceRow]:
    """Yield one price for each part and unit, per hour."""
    for (part, unit), (item, usd) in sorted(parts.items()):
        hours = HOURS_PER_UNIT[str(item["unitOfMeasure"])]
        yield PriceRow("azure", region, part, "on_demand", usd / hours, day, source, kind="part", unit=unit)
