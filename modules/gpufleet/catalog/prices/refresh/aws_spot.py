"""Amazon's spot prices: the last price of each zone within a day; a region has the median of its zones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from statistics import median
from typing import Any

from gpufleet.catalog import data_file
from gpufleet.catalog.prices.refresh import aws
from gpufleet.catalog.prices.refresh.source import RefreshScope, RegionPrices, build_region_prices
from gpufleet.catalog.prices.row import PriceRow

HISTORY_WINDOW = timedelta(days=1)  # the API adds the last change before it, so every zone has a price
VPC_SUFFIX = " (Amazon VPC)"  # of products in accounts that once had EC2-Classic
LINUX_PRODUCTS = frozenset({aws.LINUX_PRODUCT, f"{aws.LINUX_PRODUCT}{VPC_SUFFIX}"})


@dataclass
class AwsSpotSource:
    """The source: ``ec2.describe_spot_price_history``."""

    clients: aws.ClientFactory = aws.create_aws_client
    source_name: str = "aws-spot-history"
    cloud_name: str = "aws"

    def fetch_region_prices(self, region: str, scope: RefreshScope) -> RegionPrices:
        """Return the spot prices of a region at the end of the day, or now."""
        end = min(datetime.now(UTC), datetime.combine(scope.day, time.max, UTC))
        call = self.clients("ec2", region).describe_spot_price_history
        parameters = {
            "ProductDescriptions": list(aws.SUFFIX_BY_PRODUCT),
            "StartTime": end - HISTORY_WINDOW,
            "EndTime": end,
            "MaxResults": 1000,
        }
        with aws.translate_boto_errors("ec2:DescribeSpotPriceHistory", self.source_name):
            history = aws.iterate_page_items(
                call, "NextToken", "SpotPriceHistory", self.source_name, **parameters
            )
            rows = list(build_spot_price_rows(history, region, scope.day.isoformat(), self.source_name))
        return build_region_prices(rows)


def build_spot_price_rows(
    history: Iterable[dict[str, Any]], region: str, day: str, source: str
) -> Iterator[PriceRow]:
    """Yield one price for each machine and system. The source states the number of zones."""
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for change in history:
        product = str(change.get("ProductDescription")).removesuffix(VPC_SUFFIX)
        if product in aws.SUFFIX_BY_PRODUCT:
            item = f"{change['InstanceType']}{aws.SUFFIX_BY_PRODUCT[product]}"
            key = (item, str(change.get("AvailabilityZone", "")))
            newest[key] = max(newest.get(key, change), change, key=lambda entry: entry["Timestamp"])
    zones: dict[str, list[float]] = {}
    for (name, _), change in newest.items():
        zones.setdefault(name, []).append(float(change["SpotPrice"]))
    for name, prices in sorted(zones.items()):
        source_with_zones = f"{source};median-of-{len(prices)}-AZ"
        yield PriceRow("aws", region, name, "spot", round(median(prices), 6), day, source_with_zones)


def list_aws_machine_types() -> list[str]:
    """Return Amazon's machine types with accelerators in the catalogue."""
    return sorted(name for cloud, name in data_file.load_machines() if cloud == "aws")
