"""What bills by use: with an amount of the usage file it is a cost component, without one its unit price is listed.

Volume tiers are applied to the amount of each resource. Clouds count the amounts of an account together, which the
resources of one stack do not show. Free amounts of an account are not deducted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from gpufleet.catalog import (
    Price,
    PriceTier,
    RegionalPrice,
    find_first_tier_limit,
    match_price_tiers,
    round_unit_price,
)
from gpufleet.cost.inputs.terms import PurchaseTerms
from gpufleet.cost.money import HOURS_PER_MONTH, to_decimal
from gpufleet.cost.pricing.component import CostComponent, UnpricedComponent, UsageComponent
from gpufleet.cost.pricing.monthly_use import MonthlyUse, TierShare, format_use_unit
from gpufleet.cost.pricing.rates import UNKNOWN_REGION, PriceBook


def resolve_usage_component(usage: UsageComponent, book: PriceBook) -> CostComponent | UnpricedComponent:
    """Return the component with its amount of a month, or the reason why it has no price."""
    price = book.find_cloud_part_price(usage.cloud, usage.region, usage.item, "on_demand")
    estimate = None
    if price is None and book.estimate_price:
        estimate = book.estimate_price("part", usage.cloud, usage.region, usage.item)
        price = estimate.price if estimate else None
    if usage.amount is None:
        return UnpricedComponent(
            _describe_unit_price(usage, price, estimate), usage.component, is_by_use=True
        )
    use = None
    if price is not None:
        tiers = _find_tiers(usage, price)
        shares = tuple(split_into_tiers(usage.amount, tiers))
        use = MonthlyUse(price.unit, usage.is_stored, shares, _find_caveat(usage, tiers, usage.amount))
    if use and price and estimate:
        expected = to_decimal(price.usd_per_hour)
        ratios = (to_decimal(bound) / expected for bound in (estimate.low, estimate.high))
        use = replace(use, low_ratio=next(ratios), high_ratio=next(ratios)) if expected else use
    return CostComponent(
        usage.component,
        (usage.item,),
        usage.cloud,
        usage.region,
        size=usage.amount,
        terms=PurchaseTerms(pool=usage.pool),
        is_part=True,
        note="; ".join(filter(None, (f"{usage.usage_key} of the usage file", usage.note))),
        monthly_use=use,
    )


def split_into_tiers(amount: Decimal, tiers: tuple[PriceTier, ...]) -> Iterator[TierShare]:
    """Yield the part of an amount in each tier that it reaches; of nothing, the first tier."""
    upper_bounds = [*(tier.from_amount for tier in tiers[1:]), None]
    for tier, upper_bound in zip(tiers, upper_bounds, strict=True):
        if amount > tier.from_amount or tier is tiers[0]:
            upper = amount if upper_bound is None else min(amount, upper_bound)
            yield TierShare(tier.from_amount, upper - tier.from_amount, tier.usd, tier.as_of, tier.source)


def _find_tiers(usage: UsageComponent, price: Price) -> tuple[PriceTier, ...]:
    """Return the tiers that belong to a price; one tier if they are unknown, or known for another price."""
    first = PriceTier(Decimal(0), _unit_price(price, usage.is_stored), price.as_of, price.source)
    return (first, *match_price_tiers(usage.cloud, usage.region, usage.item, first.usd))


def _find_caveat(usage: UsageComponent, tiers: tuple[PriceTier, ...], amount: Decimal) -> str:
    """Return what is not certain about the price of a large amount, empty if nothing is."""
    limit = find_first_tier_limit(usage.cloud, usage.item)
    if len(tiers) > 1 or limit is None or amount <= limit:
        return ""
    region = usage.region or UNKNOWN_REGION
    return (
        f"the price of larger amounts of {usage.item} in {region} is not known; "
        "the whole amount counts at the first tier"
    )


def _unit_price(price: Price, is_stored: bool) -> Decimal:
    months = HOURS_PER_MONTH if is_stored else 1
    return round_unit_price(to_decimal(price.usd_per_hour) * months)


def _describe_unit_price(usage: UsageComponent, price: Price | None, estimate: RegionalPrice | None) -> str:
    remedy = f"give {usage.usage_key} in the usage file"
    if price is None:
        return (
            f"bills by use; {remedy}; no on-demand price for {usage.item} in {usage.region or UNKNOWN_REGION}"
        )
    usd = _unit_price(price, usage.is_stored)
    unit = format_use_unit(price.unit, is_stored=usage.is_stored)
    note = f" ({estimate.note})" if estimate else ""
    return f"bills by use, {usd:f} USD per {unit}{note}; {remedy}"
