"""What bills by use: with an amount of the usage file it is a cost component, without one its unit price is listed."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.inputs.terms import PurchaseTerms
from gpufleet.cost.money import HOURS_PER_MONTH, to_decimal
from gpufleet.cost.pricing.component import CostComponent, UnpricedComponent, UsageComponent
from gpufleet.cost.pricing.rates import UNKNOWN_REGION, PriceBook

_UNIT_PRICE_STEP = Decimal("1E-12")  # removes the error of a monthly price that was divided into hours


def resolve_usage_component(usage: UsageComponent, book: PriceBook) -> CostComponent | UnpricedComponent:
    """Return the component with the amount of a month spread over its hours, or the reason why it has no price."""
    if usage.amount is None:
        return UnpricedComponent(_describe_unit_price(usage, book), usage.component)
    return CostComponent(
        usage.component,
        (usage.item,),
        usage.cloud,
        usage.region,
        size=usage.amount if usage.is_stored else usage.amount / HOURS_PER_MONTH,
        terms=PurchaseTerms(pool=usage.pool),
        is_part=True,
        note=f"{usage.usage_key}: {usage.amount}",
    )


def _describe_unit_price(usage: UsageComponent, book: PriceBook) -> str:
    remedy = f"give {usage.usage_key} in the usage file"
    price = book.find_cloud_part_price(usage.cloud, usage.region, usage.item, "on_demand")
    if price is None:
        return (
            f"bills by use; {remedy}; no on-demand price for {usage.item} in {usage.region or UNKNOWN_REGION}"
        )
    months = HOURS_PER_MONTH if usage.is_stored else 1
    usd = (to_decimal(price.usd_per_hour) * months).quantize(_UNIT_PRICE_STEP).normalize()
    unit = price.unit.replace("_", " ") + (" and month" if usage.is_stored else "")
    return f"bills by use, {usd:f} USD per {unit}; {remedy}"
