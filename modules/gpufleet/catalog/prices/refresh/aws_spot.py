"""Amazon's spot market: the last price of each zone within a day, and of a region the median of its zones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from statistics import median
from typing import Any

from gpufleet.catalog import table
from gpufleet.catalog.prices.refresh import aws
from gpufleet.catalog.prices.refresh.feed import Batch, Scope, sound
from gpufleet.catalog.prices.row import PriceRow

WINDOW = timedelta(days=1)  # with the last change before it, so a zone without a change is not missed
LINUX = frozenset({aws.LINUX, "Linux/UNIX (Amazon VPC)"})


@dataclass
class AwsSpot:
    """The source: ``ec2.describe_spot_price_history``."""

    clients: aws.Clients = aws.client
    name: str = "aws-spot-history"
    cloud: str = "aws"

    def read(self, region: str, scope: Scope) -> Batch:
        """Return the spot prices of a region, on the day's last moment or now."""
        end = min(datetime.now(UTC), datetime.combine(scope.day, time.max, UTC))
        call = self.clients("ec2", region).describe_spot_price_history
        given = {
            "InstanceTypes": machines(),
            "ProductDescriptions": [aws.LINUX],
            "StartTime": end - WINDOW,
            "EndTime": end,
            "MaxResults": 1000,
        }
        with aws.faults("ec2:DescribeSpotPriceHistory", self.name):
            found = list(aws.items(call, "NextToken", "SpotPriceHistory", self.name, **given))
        return sound(list(rows(found, region, scope.day.isoformat(), self.name)))


def rows(history: Iterable[dict[str, Any]], region: str, day: str, source: str) -> Iterator[PriceRow]:
    """Yield one price a machine. The source names over how many zones its median goes."""
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for each in history:
        if each.get("ProductDescription") in LINUX:
            key = (str(each["InstanceType"]), str(each.get("AvailabilityZone", "")))
            newest[key] = max(newest.get(key, each), each, key=lambda change: change["Timestamp"])
    zones: dict[str, list[float]] = {}
    for (name, _), each in newest.items():
        zones.setdefault(name, []).append(float(each["SpotPrice"]))
    for name, prices in sorted(zones.items()):
        said = f"{source};median-of-{len(prices)}-AZ"
        yield PriceRow("aws", region, name, "spot", round(median(prices), 6), day, said)


def machines() -> list[str]:
    """Return the machine types of Amazon's that the catalogue knows."""
    return sorted(name for cloud, name in table.machines() if cloud == "aws")
