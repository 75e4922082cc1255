"""Amazon's Compute Savings Plans: what an hour of a machine takes of the commitment, in any region and family.

EC2 Instance plans are cheaper and tied to a family; two rates under one name could not be told apart, so they are
not read. Nor is "Partial Upfront": the API does not say how much is due at the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gpufleet.catalog.prices.refresh import aws
from gpufleet.catalog.prices.refresh.aws_spot import machines
from gpufleet.catalog.prices.refresh.feed import Batch, Scope, sound
from gpufleet.catalog.prices.row import PriceRow

OPTIONS = ["No Upfront", "All Upfront"]
FIT = {"productDescription": aws.LINUX, "tenancy": "shared"}


@dataclass
class AwsSavings:
    """The source: ``savingsplans.describe_savings_plans_offering_rates``."""

    clients: aws.Clients = aws.client
    name: str = "aws-savings-plans"
    cloud: str = "aws"

    def read(self, region: str, scope: Scope) -> Batch:
        """Return the rates of a region."""
        call = self.clients("savingsplans", aws.HOME).describe_savings_plans_offering_rates
        wanted = {"region": [region], "instanceType": machines()} | {
            key: [value] for key, value in FIT.items()
        }
        given = {
            "savingsPlanTypes": ["Compute"],
            "savingsPlanPaymentOptions": OPTIONS,
            "products": ["EC2"],
            "serviceCodes": ["AmazonEC2"],
            "filters": [{"name": name, "values": values} for name, values in wanted.items()],
            "maxResults": 1000,
        }
        with aws.faults("savingsplans:DescribeSavingsPlansOfferingRates", self.name):
            found = list(aws.items(call, "nextToken", "searchResults", self.name, **given))
        left_out: list[str] = []
        return sound(list(rows(found, region, scope.day.isoformat(), self.name, left_out)), left_out)


def rows(
    rates: Iterable[dict[str, Any]], region: str, day: str, source: str, left_out: list[str]
) -> Iterator[PriceRow]:
    """Yield one rate for each machine, term and way to pay."""
    found: dict[tuple[str, str, Any], set[float]] = {}
    for each in rates:
        offering, said = each.get("savingsPlanOffering", {}), properties(each)
        term = aws.TERMS.get(offering.get("durationSeconds", 0))
        upfront = aws.UPFRONT.get(offering.get("paymentOption", ""))
        if term and upfront and plain(each, said, region):
            found.setdefault((said["instanceType"], term, upfront), set()).add(float(each["rate"]))
    for (name, term, upfront), usd in sorted(found.items()):
        if len(usd) > 1:
            left_out.append(f"aws {region} {name} savings_plan_{term} {upfront}: {len(usd)} rates")
            continue
        hourly = next(iter(usd))
        fixed = hourly * aws.TERM_HOURS[term] if upfront == "all" else 0.0
        yield PriceRow(
            "aws", region, name, f"savings_plan_{term}", hourly, day, source, upfront=upfront, upfront_usd=fixed
        )  # fmt: skip


def plain(rate: dict[str, Any], said: dict[str, str], region: str) -> bool:
    """Tell whether a rate is of a running Linux machine under a Compute plan, in dollars an hour."""
    offering = rate.get("savingsPlanOffering", {})
    return (
        offering.get("planType") == "Compute"
        and offering.get("currency", "USD") == "USD"
        and rate.get("unit") == "Hrs"
        and "BoxUsage" in str(rate.get("usageType", ""))  # not UnusedBox, which is an idle reservation's hour
        and rate.get("operation", "RunInstances") == "RunInstances"
        and bool(said.get("instanceType"))
        and said.get("region", region) == region
        and all(said.get(key, value) == value for key, value in FIT.items())
    )


def properties(rate: dict[str, Any]) -> dict[str, str]:
    """Return a rate's properties as a mapping."""
    return {str(each.get("name")): str(each.get("value")) for each in rate.get("properties", [])}
