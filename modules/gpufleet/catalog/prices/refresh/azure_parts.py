"""Parts of Azure's retail prices: disks, addresses, gateways, balancers, clusters, databases, caches, containers.

``data/refresh_azure.csv`` has the rules: patterns of the product, SKU and meter names that the retail price API uses,
each with the public source that names them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from gpufleet.boundary import Json
from gpufleet.catalog.data_file import Row
from gpufleet.catalog.entry import HOURS_PER_MONTH
from gpufleet.catalog.prices import part_rule
from gpufleet.catalog.prices.part_rule import PartName
from gpufleet.catalog.prices.row import PriceRow

GLOBAL_REGION = "Global"  # of a price that is the same in all regions, such as a load balancer's
WORLDWIDE_REGION = "global"  # the catalogue's, of services without regions
WORLDWIDE_SERVICES = frozenset({"cdn", "dns", "front_door", "traffic_manager"})  # pricers use that region
ZONE_REGION = "Zone 1"  # North America and Europe, of services with zones instead of regions
SERVICES_PER_QUERY = 8  # so that the address stays below 2,000 characters
BLOB_PRODUCTS = (
    "General Block Blob v2", "General Block Blob", "Blob Storage", "Premium Block Blob", "Files v2", "Premium Files",
)  # fmt: skip
STORAGE_PRODUCTS = (
    "(contains(productName, 'Managed Disks') or "
    + " or ".join(f"productName eq '{product}'" for product in BLOB_PRODUCTS)
    + ")"
)
# The unit of an item: "1 Hour", "1/Month", "1 GB/Month", "10K", "1M", "1 GB Hour", "1 IOPS/Month", "100 Hours", "1 TB".
MEASURE = re.compile(
    r"(?P<count>\d+)(?P<scale>[KM]?)(?: (?P<size>GB|GiB|TB|IOPS))?(?: (?:Second|Minute))?"
    r"(?:(?: |/| /)(?P<time>Hour|Day|Month)s?)?"
)
SCALES = {"": 1, "K": 1_000, "M": 1_000_000}
HOURS = {"Hour": 1, "Day": 24, "Month": HOURS_PER_MONTH}
BARE_MEASURE = "1"  # of DNS zones and health checks: a month
TERABYTE_UNIT = "tib"
DROPPED_CHARACTERS = " -"  # "P1 v3" is p1v3, RA-GRS is ragrs


@dataclass(frozen=True)
class AzurePartMeter:
    """Which items are a part. ``name`` may contain groups of ``product`` and ``sku``."""

    service: str
    product: re.Pattern[str]
    sku: re.Pattern[str]
    meter: re.Pattern[str]
    name: PartName
    amount: float = 1

    def find_name(self, item: Json) -> str | None:
        """Return the name of the part that an item prices, None for another item."""
        if item.get("serviceName") != self.service or not self.meter.fullmatch(_cell(item, "meterName")):
            return None
        product = self.product.fullmatch(_cell(item, "productName"))
        sku = self.sku.fullmatch(_cell(item, "skuName"))
        if not product or not sku:
            return None
        return self.name.format_name({**product.groupdict(), **sku.groupdict()}, DROPPED_CHARACTERS)


@dataclass(frozen=True)
class AzurePart:
    """A part that an item prices: its name and unit, and what the amount is divided by for USD per hour or use.

    ``rank`` is the position of the rule: of two items of a part, that of the earlier rule counts.
    """

    name: str
    unit: str
    divisor: float
    rank: int


@cache
def list_part_meters() -> tuple[AzurePartMeter, ...]:
    """Return all rules of the data file."""
    return tuple(_build_meter(row) for row in part_rule.load_rule_rows("azure"))


@cache
def _group_meters_by_service() -> dict[str, list[tuple[int, AzurePartMeter]]]:
    """Return the rules of each service with their positions."""
    meters: dict[str, list[tuple[int, AzurePartMeter]]] = defaultdict(list)
    for rank, meter in enumerate(list_part_meters()):
        meters[meter.service].append((rank, meter))
    return dict(meters)


def _build_meter(row: Row) -> AzurePartMeter:
    product, sku, meter = (re.compile(row[column], re.IGNORECASE) for column in ("product", "sku", "meter"))
    name = part_rule.read_part_name(row)
    return AzurePartMeter(row["service"], product, sku, meter, name, row.get_number("amount"))


@cache
def list_part_services() -> tuple[str, ...]:
    """Return the services with parts, without storage: of its items only some products are requested."""
    services = dict.fromkeys(meter.service for meter in list_part_meters())
    return tuple(service for service in services if service != "Storage")


def build_part_filters(region: str) -> list[str]:
    """Return the filters for the items of all services with parts, in a region or for all regions."""
    names = (region, GLOBAL_REGION, ZONE_REGION)
    regions = "(" + " or ".join(f"armRegionName eq '{name}'" for name in names) + ")"
    suffix = f"{regions} and priceType eq 'Consumption'"
    services = list_part_services()
    groups = [
        services[start : start + SERVICES_PER_QUERY] for start in range(0, len(services), SERVICES_PER_QUERY)
    ]
    filters = [
        "(" + " or ".join(f"serviceName eq '{service}'" for service in group) + f") and {suffix}"
        for group in groups
    ]
    return [f"serviceName eq 'Storage' and {suffix} and {STORAGE_PRODUCTS}", *filters]


def find_parts(item: Json) -> Iterator[AzurePart]:
    """Yield the parts that an item prices: none, one, or several that Azure bills by the same meter."""
    if item.get("type") != "Consumption":
        return
    measure = str(item.get("unitOfMeasure") or "")
    for rank, meter in _group_meters_by_service().get(_cell(item, "serviceName"), ()):
        name = meter.find_name(item)
        divisor = find_divisor(measure, meter.name) if name else None
        if name and divisor:
            yield AzurePart(name, meter.name.unit, divisor * meter.amount, rank)


def is_worldwide(part: str) -> bool:
    """Return whether pricers look for a part in the catalogue's region ``global``."""
    return part.partition(":")[0] in WORLDWIDE_SERVICES


def find_divisor(measure: str, name: PartName) -> float | None:
    """Return what an amount is divided by for USD per hour, or per use; None if the unit is not that of the part."""
    match = MEASURE.fullmatch(measure)
    if not match or not int(match["count"]) or (match["size"] == "TB") != (name.unit == TERABYTE_UNIT):
        return None
    amount = int(match["count"]) * SCALES[match["scale"]]
    if name.per == "time" and measure == BARE_MEASURE:
        return HOURS["Month"]
    if name.per == "time":
        return amount * HOURS[match["time"]] if match["time"] else None
    is_per_use = match["time"] is None or (match["time"] == "Hour" and name.unit.endswith("hour"))
    return amount if is_per_use else None


def build_part_rows(
    parts: Mapping[tuple[str, str], float], region: str, day: str, source: str
) -> Iterator[PriceRow]:
    """Yield one price for each part and unit."""
    for (part, unit), usd in sorted(parts.items()):
        yield PriceRow("azure", region, part, "on_demand", usd, day, source, kind="part", unit=unit)


def _cell(item: Json, key: str) -> str:
    return str(item.get(key) or "")
