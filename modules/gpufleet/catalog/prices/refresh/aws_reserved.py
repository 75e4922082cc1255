"""Amazon's current reserved instance offerings: a fixed price and recurring hourly charges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gpufleet.catalog.prices.refresh import aws
from gpufleet.catalog.prices.refresh.aws_spot import LINUX_PRODUCTS, list_aws_machine_types
from gpufleet.catalog.prices.refresh.source import RefreshScope, RegionPrices, build_region_prices
from gpufleet.catalog.prices.row import PriceRow

REGIONAL_SCOPES = (None, "Region")  # zonal offerings have the same price


@dataclass
class AwsReservedSource:
    """The source: ``ec2.describe_reserved_instances_offerings``; only Amazon's own, not the marketplace's."""

    clients: aws.ClientFactory = aws.create_aws_client
    source_name: str = "aws-reserved-offerings"
    cloud_name: str = "aws"

    def fetch_region_prices(self, region: str, scope: RefreshScope) -> RegionPrices:
        """Return the offerings of a region for one and three years."""
        call = self.clients("ec2", region).describe_reserved_instances_offerings
        parameters = {
            "Filters": [{"Name": "instance-type", "Values": list_aws_machine_types()}],
            "ProductDescription": aws.LINUX_PRODUCT,
            "InstanceTenancy": "default",
            "OfferingClass": "standard",
            "IncludeMarketplace": False,
            "MaxResults": 100,
        }
        with aws.translate_boto_errors("ec2:DescribeReservedInstancesOfferings", self.source_name):
            offerings = list(
                aws.iterate_page_items(
                    call, "NextToken", "ReservedInstancesOfferings", self.source_name, **parameters
                )
            )
        left_out: list[str] = []
        return build_region_prices(
            list(
                build_reserved_price_rows(
                    offerings, region, scope.day.isoformat(), self.source_name, left_out
                )
            ),
            left_out,
        )


def build_reserved_price_rows(
    offerings: Iterable[dict[str, Any]], region: str, day: str, source: str, left_out: list[str]
) -> Iterator[PriceRow]:
    """Yield one price for each machine, term and payment option."""
    prices_by_offer: dict[tuple[str, str, Any], set[tuple[float, float]]] = {}
    for offering in offerings:
        term, upfront = (
            aws.TERMS.get(offering.get("Duration", 0)),
            aws.UPFRONT_OPTIONS.get(offering.get("OfferingType", "")),
        )
        if term and upfront and is_plain_linux_offering(offering):
            fixed, hourly = float(offering.get("FixedPrice") or 0), sum_hourly_charges(offering)
            prices_by_offer.setdefault((str(offering["InstanceType"]), term, upfront), set()).add(
                (fixed, hourly)
            )
    for (name, term, upfront), prices in sorted(prices_by_offer.items()):
        if len(prices) > 1:
            left_out.append(f"aws {region} {name} reserved_{term} {upfront}: {len(prices)} prices")
            continue
        fixed, hourly = next(iter(prices))
        usd = round(hourly + fixed / aws.TERM_HOURS[term], 6)
        yield PriceRow(
            "aws", region, name, f"reserved_{term}", usd, day, source, upfront=upfront, upfront_usd=fixed
        )  # fmt: skip


def is_plain_linux_offering(offering: dict[str, Any]) -> bool:
    """Return whether an offering is a regional standard Linux reservation from Amazon in USD."""
    return (
        offering.get("ProductDescription") in LINUX_PRODUCTS
        and not offering.get("Marketplace")
        and offering.get("CurrencyCode", "USD") == "USD"
        and offering.get("InstanceTenancy", "default") == "default"
        and offering.get("OfferingClass", "standard") == "standard"
        and offering.get("Scope") in REGIONAL_SCOPES
        and not offering.get("AvailabilityZone")
    )


def sum_hourly_charges(offering: dict[str, Any]) -> float:
    """Return the hourly charge: recurring charges, and the usage price of old offerings."""
    charges = sum(
        float(charge["Amount"])
        for charge in offering.get("RecurringCharges", [])
        if charge.get("Frequency") == "Hourly"
    )
    return charges + float(offering.get("UsagePrice") or 0)
