"""API Management of the classic provider, which names a tier and a number of units in one input."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader


@pricer("azure:apimanagement/service:Service")
def price_api_management(service: Reader) -> Parts:
    """Yield the units of a service such as Developer_1; the tier Consumption bills its calls instead."""
    with service.of("service") as units:
        tier, _, count = units.text("skuName", "its tier").lower().partition("_")
        if tier == "consumption":
            yield service.of("calls").used("api_management:call", "monthly_api_calls")
        elif count.isdigit() or not count:
            yield units.part(f"api_management:{tier}", Decimal(count or 1) or 1)
        else:
            raise units.refuse("the number of its units is not known until deployment")
