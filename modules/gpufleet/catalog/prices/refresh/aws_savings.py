"""Amazon's Compute Savings Plans: the rate of a machine per hour, for any region and family.

EC2 Instance plans are not read: they are tied to a family, and one name would have two rates. "Partial Upfront" is not
read either: the API does not state the upfront amount.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gpufleet.catalog.prices.refresh import aws
from gpufleet.catalog.prices.refresh.source import RefreshScope, RegionPrices, build_region_prices
from gpufleet.catalog.prices.row import PriceRow

PAYMENT_OPTIONS = ["No Upfront", "All Upfront"]
RATE_FILTERS = {"productDescription": list(aws.SUFFIX_BY_PRODUCT), "tenancy": ["shared"]}


@dataclass
class AwsSavingsPlanSource:
    """The source: ``savingsplans.describe_savings_plans_offering_rates``."""

    clients: aws.ClientFactory = aws.create_aws_client
    source_name: str = "aws-savings-plans"
    cloud_name: str = "aws"

    def fetch_region_prices(self, region: str, scope: RefreshScope) -> RegionPrices:
        """Return the rates of a region."""
        call = self.clients("savingsplans", aws.PRICING_REGION).describe_savings_plans_offering_rates
        filters = {"region": [region]} | RATE_FILTERS
        parameters = {
            "savingsPlanTypes": ["Compute"],
            "savingsPlanPaymentOptions": PAYMENT_OPTIONS,
            "products": ["EC2"],
            "serviceCodes": ["AmazonEC2"],
            "filters": [{"name": name, "values": values} for name, values in filters.items()],
            "maxResults": 1000,
        }
        with aws.translate_boto_errors("savingsplans:DescribeSavingsPlansOfferingRates", self.source_name):
            rates = list(
                aws.iterate_page_items(call, "nextToken", "searchResults", self.source_name, **parameters)
            )
        left_out: list[str] = []
        return build_region_prices(
            list(
                build_savings_plan_price_rows(
                    rates, region, scope.day.isoformat(), self.source_name, left_out
                )
            ),
            left_out,
        )


def build_savings_plan_price_rows(
    rates: Iterable[dict[str, Any]], region: str, day: str, source: str, left_out: list[str]
) -> Iterator[PriceRow]:
    """Yield one rate for each machine, system, term and payment option."""
    rates_by_offer: dict[tuple[str, str, Any], set[float]] = {}
    for rate in rates:
        offering, rate_properties = rate.get("savingsPlanOffering", {}), parse_rate_properties(rate)
        term = aws.TERMS.get(offering.get("durationSeconds", 0))
        upfront = aws.UPFRONT_OPTIONS.get(offering.get("paymentOption", ""))
        if term and upfront and is_machine_rate(rate, rate_properties, region):
            suffix = aws.SUFFIX_BY_PRODUCT[rate_properties["productDescription"]]
            key = (f"{rate_properties['instanceType']}{suffix}", term, upfront)
            rates_by_offer.setdefault(key, set()).add(float(rate["rate"]))
    for (name, term, upfront), usd in sorted(rates_by_offer.items()):
        if len(usd) > 1:
            left_out.append(f"aws {region} {name} savings_plan_{term} {upfront}: {len(usd)} rates")
            continue
        hourly = next(iter(usd))
        fixed = hourly * aws.TERM_HOURS[term] if upfront == "all" else 0.0
        yield PriceRow(
            "aws", region, name, f"savings_plan_{term}", hourly, day, source, upfront=upfront, upfront_usd=fixed
        )  # fmt: skip


def is_machine_rate(rate: dict[str, Any], rate_properties: dict[str, str], region: str) -> bool:
    """Return whether a rate is that of a running shared machine under a Compute plan in USD per hour."""
    offering = rate.get("savingsPlanOffering", {})
    operation = aws.OPERATION_BY_PRODUCT.get(
        rate_properties.setdefault("productDescription", aws.LINUX_PRODUCT)
    )
    return (
        offering.get("planType") == "Compute"
        and offering.get("currency", "USD") == "USD"
        and rate.get("unit") == "Hrs"
        and "BoxUsage" in str(rate.get("usageType", ""))  # UnusedBox is an hour of an unused reservation
        and operation is not None
        and rate.get("operation", operation) == operation
        and bool(rate_properties.get("instanceType"))
        and rate_properties.get("region", region) == region
        and all(rate_properties.get(key, values[0]) in values for key, values in RATE_FILTERS.items())
    )


def parse_rate_properties(rate: dict[str, Any]) -> dict[str, str]:
    """Return a rate's properties as a mapping."""
    return {str(entry.get("name")): str(entry.get("value")) for entry in rate.get("properties", [])}
