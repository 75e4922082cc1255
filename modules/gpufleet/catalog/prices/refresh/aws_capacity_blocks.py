"""Amazon's current Capacity Block offerings: the upfront price of one machine for a day, per hour."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from gpufleet.catalog.prices.refresh import aws
from gpufleet.catalog.prices.refresh.aws_spot import list_aws_machine_types
from gpufleet.catalog.prices.refresh.source import (
    RefreshScope,
    RegionPrices,
    RequestRejected,
    build_region_prices,
)
from gpufleet.catalog.prices.row import PriceRow

BLOCK_HOURS = 24  # the shortest block
MACHINE_SERIES = ("p4", "p5", "p6", "trn")


@dataclass
class AwsCapacityBlockSource:
    """The source: ``ec2.describe_capacity_block_offerings``. It never buys."""

    clients: aws.ClientFactory = aws.create_aws_client
    source_name: str = "aws-capacity-blocks"
    cloud_name: str = "aws"

    def fetch_region_prices(self, region: str, scope: RefreshScope) -> RegionPrices:
        """Return the block prices of a region; a machine without an offering has no price."""
        offers, rejections = [], []
        names = [name for name in list_aws_machine_types() if name.startswith(MACHINE_SERIES)]
        for name in names:
            try:
                offers += self._fetch_offers(region, name)
            except RequestRejected as fault:  # not every type or region has blocks
                rejections.append(fault)
        if len(rejections) == len(names):
            raise rejections[0]
        day = scope.day.isoformat()
        prices = ((name, median_usd_per_hour(offers, name)) for name in names)
        return build_region_prices(
            PriceRow("aws", region, name, "capacity_block", usd, day, f"{self.source_name};24h")
            for name, usd in prices
            if usd is not None
        )

    def _fetch_offers(self, region: str, name: str) -> list[dict[str, Any]]:
        call = self.clients("ec2", region).describe_capacity_block_offerings
        parameters = {
            "InstanceType": name,
            "InstanceCount": 1,
            "CapacityDurationHours": BLOCK_HOURS,
            "MaxResults": 100,
        }
        with aws.translate_boto_errors("ec2:DescribeCapacityBlockOfferings", self.source_name):
            return list(
                aws.iterate_page_items(
                    call, "NextToken", "CapacityBlockOfferings", self.source_name, **parameters
                )
            )


def median_usd_per_hour(offers: Iterable[dict[str, Any]], name: str) -> float | None:
    """Return the median offered price per machine and hour; None without offerings."""
    hourly_prices = []
    for offer in offers:
        hours = int(offer.get("CapacityBlockDurationHours") or 0) * int(offer.get("InstanceCount") or 0)
        if offer.get("InstanceType") == name and offer.get("CurrencyCode") == "USD" and hours:
            hourly_prices.append(float(offer["UpfrontFee"]) / hours)
    return round(median(hourly_prices), 6) if hourly_prices else None
