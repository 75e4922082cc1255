"""Amazon's reservations as they are sold now: a fixed price, and charges that recur every hour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gpufleet.catalog.prices.refresh import aws
from gpufleet.catalog.prices.refresh.aws_spot import LINUX, machines
from gpufleet.catalog.prices.refresh.feed import Batch, Scope, sound
from gpufleet.catalog.prices.row import PriceRow

REGIONAL = (None, "Region")  # of a zone: the same price, tied to a place


@dataclass
class AwsReserved:
    """The source: ``ec2.describe_reserved_instances_offerings``; Amazon's own, never the marketplace's."""

    clients: aws.Clients = aws.client
    name: str = "aws-reserved-offerings"
    cloud: str = "aws"

    def read(self, region: str, scope: Scope) -> Batch:
        """Return what is sold in a region for one year and for three."""
        call = self.clients("ec2", region).describe_reserved_instances_offerings
        given = {
            "Filters": [{"Name": "instance-type", "Values": machines()}],
            "ProductDescription": aws.LINUX,
            "InstanceTenancy": "default",
            "OfferingClass": "standard",
            "IncludeMarketplace": False,
            "MaxResults": 100,
        }
        with aws.faults("ec2:DescribeReservedInstancesOfferings", self.name):
            found = list(aws.items(call, "NextToken", "ReservedInstancesOfferings", self.name, **given))
        left_out: list[str] = []
        return sound(list(rows(found, region, scope.day.isoformat(), self.name, left_out)), left_out)


def rows(
    offerings: Iterable[dict[str, Any]], region: str, day: str, source: str, left_out: list[str]
) -> Iterator[PriceRow]:
    """Yield one price for each machine, term and way to pay."""
    found: dict[tuple[str, str, Any], set[tuple[float, float]]] = {}
    for each in offerings:
        term, upfront = aws.TERMS.get(each.get("Duration", 0)), aws.UPFRONT.get(each.get("OfferingType", ""))
        if term and upfront and ours(each):
            fixed, hourly = float(each.get("FixedPrice") or 0), hour(each)
            found.setdefault((str(each["InstanceType"]), term, upfront), set()).add((fixed, hourly))
    for (name, term, upfront), prices in sorted(found.items()):
        if len(prices) > 1:
            left_out.append(f"aws {region} {name} reserved_{term} {upfront}: {len(prices)} prices")
            continue
        fixed, hourly = next(iter(prices))
        usd = round(hourly + fixed / aws.TERM_HOURS[term], 6)
        yield PriceRow(
            "aws", region, name, f"reserved_{term}", usd, day, source, upfront=upfront, upfront_usd=fixed
        )  # fmt: skip


def ours(offering: dict[str, Any]) -> bool:
    """Tell whether it is a plain Linux reservation of a region, from Amazon, in dollars."""
    return (
        offering.get("ProductDescription") in LINUX
        and not offering.get("Marketplace")
        and offering.get("CurrencyCode", "USD") == "USD"
        and offering.get("InstanceTenancy", "default") == "default"
        and offering.get("OfferingClass", "standard") == "standard"
        and offering.get("Scope") in REGIONAL
        and not offering.get("AvailabilityZone")
    )


def hour(offering: dict[str, Any]) -> float:
    """Return what each hour costs: recurring charges, and the use price of old offerings."""
    charges = sum(
        float(each["Amount"])
        for each in offering.get("RecurringCharges", [])
        if each.get("Frequency") == "Hourly"
    )
    return charges + float(offering.get("UsagePrice") or 0)
