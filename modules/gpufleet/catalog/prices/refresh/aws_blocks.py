"""Amazon's Capacity Blocks on offer now: what one machine costs for a day, paid at the start, by hour."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from gpufleet.catalog.prices.refresh import aws
from gpufleet.catalog.prices.refresh.aws_spot import machines
from gpufleet.catalog.prices.refresh.feed import Batch, Refused, Scope, sound
from gpufleet.catalog.prices.row import PriceRow

HOURS = 24  # the shortest that is sold
SERIES = ("p4", "p5", "p6", "trn")


@dataclass
class AwsBlocks:
    """The source: ``ec2.describe_capacity_block_offerings``. It looks, it never buys."""

    clients: aws.Clients = aws.client
    name: str = "aws-capacity-blocks"
    cloud: str = "aws"

    def read(self, region: str, scope: Scope) -> Batch:
        """Return what blocks cost in a region; a machine without an offer has no price now."""
        found, refusals = [], []
        names = [name for name in machines() if name.startswith(SERIES)]
        for name in names:
            try:
                found += self._offers(region, name)
            except Refused as fault:  # not every type is sold so, nor in every region
                refusals.append(fault)
        if len(refusals) == len(names):
            raise refusals[0]
        day = scope.day.isoformat()
        priced = ((name, price(found, name)) for name in names)
        return sound(
            PriceRow("aws", region, name, "capacity_block", usd, day, f"{self.name};24h")
            for name, usd in priced
            if usd is not None
        )

    def _offers(self, region: str, name: str) -> list[dict[str, Any]]:
        call = self.clients("ec2", region).describe_capacity_block_offerings
        given = {"InstanceType": name, "InstanceCount": 1, "CapacityDurationHours": HOURS, "MaxResults": 100}
        with aws.faults("ec2:DescribeCapacityBlockOfferings", self.name):
            return list(aws.items(call, "NextToken", "CapacityBlockOfferings", self.name, **given))


def price(offers: Iterable[dict[str, Any]], name: str) -> float | None:
    """Return the middle of what is on offer, by machine and hour; None where nothing is."""
    found = []
    for each in offers:
        hours = int(each.get("CapacityBlockDurationHours") or 0) * int(each.get("InstanceCount") or 0)
        if each.get("InstanceType") == name and each.get("CurrencyCode") == "USD" and hours:
            found.append(float(each["UpfrontFee"]) / hours)
    return round(median(found), 6) if found else None
