"""What one unit costs under its terms.

Rules for prices that the price list does not have:

* where only deployment shows whether it is spot, on-demand is expected and spot is the lower bound;
* spot with an on-demand fallback ranges from the spot price (expected) up to on-demand;
* an on-demand price that nobody recorded in a region is that of the region most like it, with a band and a note
  (``catalog/regional_price.py``);
* a missing spot or commitment price is never replaced by an old one or another region's: on-demand, which
  neither exceeds, is expected and high, zero is low, and the resource is listed as unpriced for that purchase;
* a price older than 180 days has the range in which nine in ten such prices moved meanwhile (``price_drift.py``);
* a commitment without a term (reserved capacity) bills at on-demand;
* the maximum that a program offers for spot bounds it; below the market's price it may buy nothing;
* without any price the resource is left out of the totals and listed, never counted as zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from gpufleet import catalog
from gpufleet.catalog import Price
from gpufleet.cost.inputs.terms import LIMITED_TIME, TERMS
from gpufleet.cost.money import ZERO, Range, to_decimal
from gpufleet.cost.pricing.component import CostComponent, UnpricedComponent
from gpufleet.cost.pricing.region import HIDDEN_REGION
from gpufleet.cost.pricing.weighted_capacity import weighted_capacity_cost

if TYPE_CHECKING:
    from gpufleet.catalog import RegionalPrice

UNKNOWN_REGION = "an unknown region"
Lookup = Callable[[str, str, str, str], Price | None]  # cloud, region, item, purchase
Kind = Literal["machine", "part"]
Estimate = Callable[[Kind, str, str, str], "RegionalPrice | None"]  # kind, cloud, region, item


@dataclass(frozen=True)
class PriceBook:
    """Where prices are looked up: the catalogue, as it is or as it was ``on`` a day; tests pass their own.

    X
    """

    find_machine_price: Lookup = catalog.find_machine_price
    find_cloud_part_price: Lookup = catalog.find_cloud_part_price
    on_date: date | None = None
    estimate_price: Estimate | None = None
    today: date | None = None  # from which prices are old; None: none is

    def __post_init__(self) -> None:
        if self.find_machine_price is not catalog.find_machine_price:
            return
        if self.find_cloud_part_price is not catalog.find_cloud_part_price:
            return
        object.__setattr__(self, "estimate_price", partial(_estimate_price, on_date=self.on_date))
        if self.on_date is not None:
            for name, lookup in (
                ("find_machine_price", catalog.find_machine_price),
                ("find_cloud_part_price", catalog.find_cloud_part_price),
            ):
                object.__setattr__(self, name, partial(lookup, on_date=self.on_date))


def _estimate_price(
    kind: Kind, cloud: str, region: str, item: str, *, on_date: date | None
) -> RegionalPrice | None:
    return catalog.estimate_regional_price(kind, cloud, region, item, on_date)  # imported with the first use


def with_price_cache(book: PriceBook, today: date | None = None) -> PriceBook:
    """Return the same book for one bill, with each price looked up once, and none in a hidden region."""

    def look_up_once(find: Lookup) -> Lookup:
        return cache(
            lambda cloud, region, item, purchase: (
                None if region.startswith(HIDDEN_REGION) else find(cloud, region, item, purchase)
            )
        )

    return PriceBook(
        look_up_once(book.find_machine_price),
        look_up_once(book.find_cloud_part_price),
        book.on_date,
        book.estimate_price,
        book.on_date or today,
    )


@dataclass(frozen=True)
class ComponentRate:
    """Dollars per unit and hour, the price it is based on, and what has no price.

    ``total_usd_per_hour`` is the cost of the entire component where that is not its count times the rate.
    """

    usd_per_hour: Range | None
    price: Price | None
    unpriced: UnpricedComponent | None = None
    total_usd_per_hour: Range | None = None
    note: str = ""  # which region's price it is, if it is not the component's own


def find_component_rate(component: CostComponent, book: PriceBook) -> ComponentRate:
    """Return the rate of one unit of a component."""
    if component.declared_price:
        return ComponentRate(
            Range.from_exact_value(component.declared_price.usd_per_hour), component.declared_price
        )
    item_rates = [_rate_item(component, item, book) for item in component.priced_items]
    total = None
    if component.capacity_units and all(each.usd_per_hour for each in item_rates):
        unit_rates = [each.usd_per_hour for each in item_rates if each.usd_per_hour]
        total = weighted_capacity_cost(component.capacity_units, component.weights, unit_rates)
    if component.count_ratios:
        pairs = zip(item_rates, component.count_ratios, strict=True)
        item_rates = [_scale_rate(each, ratio) for each, ratio in pairs]
    first = item_rates[0]
    if first.usd_per_hour is None:
        return first
    unpriced = next((each.unpriced for each in item_rates if each.unpriced), None)
    ranges = [each.usd_per_hour for each in item_rates if each.usd_per_hour]
    low, high = min(each.low for each in ranges), max(each.high for each in ranges)
    expected = first.usd_per_hour.expected
    return ComponentRate(Range.spanning(low, expected, high), first.price, unpriced, total, first.note)


def _rate_item(component: CostComponent, item: str, book: PriceBook) -> ComponentRate:
    look_up = book.find_cloud_part_price if component.is_part else book.find_machine_price
    on_demand = look_up(component.cloud, component.region, item, "on_demand")
    purchase = component.terms.purchase
    if on_demand is None and purchase == "on_demand" and book.estimate_price:
        kind: Kind = "part" if component.is_part else "machine"
        if estimate := book.estimate_price(kind, component.cloud, component.region, item):
            return _estimated_rate(estimate)
    if purchase in ("spot", *TERMS, *LIMITED_TIME):
        discounted = look_up(component.cloud, component.region, item, purchase)
        rate = _discounted_rate(component, item, discounted, on_demand, book)
        return _cap_spot_rate(component, item, rate)
    if on_demand is None:
        reason = _missing_price(component, item, "on_demand")
        return ComponentRate(None, None, UnpricedComponent(reason, component.component))
    if component.terms.is_spot_unknown and purchase == "on_demand":
        spot = look_up(component.cloud, component.region, item, "spot")
        return _possible_spot_rate(component, item, on_demand, spot)
    return ComponentRate(_price_range(component.cloud, on_demand, book), on_demand)


def _price_range(cloud: str, price: Price, book: PriceBook, limit: Price | None = None) -> Range:
    """Return a price; if it is old, with how much such prices move, up to a price that it does not exceed."""
    expected = to_decimal(price.usd_per_hour)
    drift = catalog.find_price_drift(cloud, price, book.today) if book.today else None
    if drift is None:
        return Range.from_exact_value(expected)
    high = expected * to_decimal(drift.high)
    if limit is not None:
        high = max(expected, min(high, to_decimal(limit.usd_per_hour)))
    return Range(expected * to_decimal(drift.low), expected, high)


def _estimated_rate(estimate: RegionalPrice) -> ComponentRate:
    low, expected, high = map(to_decimal, (estimate.low, estimate.price.usd_per_hour, estimate.high))
    return ComponentRate(Range(low, expected, high), estimate.price, note=estimate.note)


def _possible_spot_rate(
    component: CostComponent, item: str, on_demand: Price, spot: Price | None
) -> ComponentRate:
    """Bound what may be spot by both prices; without a spot price the lower bound is zero."""
    expected = to_decimal(on_demand.usd_per_hour)
    low = to_decimal(spot.usd_per_hour) if spot else ZERO
    reason = f"whether {item} is bought on spot is not known until deployment"
    unpriced = UnpricedComponent(reason, component.component)
    return ComponentRate(Range.spanning(low, expected, expected), on_demand, unpriced)


def _discounted_rate(
    component: CostComponent, item: str, discounted: Price | None, on_demand: Price | None, book: PriceBook
) -> ComponentRate:
    """Return the rate of spot, a commitment or a limited time, or its bounds where it has no price."""
    reason = _missing_price(component, item, component.terms.purchase)
    if discounted is None and on_demand is None:
        return ComponentRate(None, None, UnpricedComponent(reason, component.component))
    if discounted is None and on_demand is not None:
        bound = to_decimal(on_demand.usd_per_hour)
        # A block's price follows supply and demand (AWS, Capacity Blocks pricing), so on-demand does not bound it.
        is_bound = component.terms.purchase != "capacity_block"
        reason = f"{reason}; counted at on-demand{', its upper bound' if is_bound else ''}"
        return ComponentRate(
            Range(ZERO, bound, bound), on_demand, UnpricedComponent(reason, component.component)
        )
    assert discounted is not None  # noqa: S101 - the two cases above leave only this
    market = _price_range(component.cloud, discounted, book, on_demand)
    if not component.terms.has_fallback:
        return ComponentRate(market, discounted)
    if on_demand is None:
        reason = _missing_price(component, item, "on_demand") + ", to which it falls back"
        return ComponentRate(market, discounted, UnpricedComponent(reason, component.component))
    highest = to_decimal(on_demand.usd_per_hour)
    return ComponentRate(Range.spanning(market.low, market.expected, highest), discounted)


def _cap_spot_rate(component: CostComponent, item: str, rate: ComponentRate) -> ComponentRate:
    """Bound spot by the maximum price offered; if the market asks more, the machine may not run at all."""
    max_price, market = component.terms.max_price, rate.usd_per_hour
    if max_price is None or market is None or component.terms.purchase != "spot" or max_price >= market.high:
        return rate
    if max_price >= market.expected:
        return ComponentRate(Range(market.low, market.expected, max_price), rate.price, rate.unpriced)
    reason = f"the maximum spot price, {max_price} USD an hour, is below the price of {item}"
    unpriced = UnpricedComponent(reason, component.component)
    return ComponentRate(Range(ZERO, max_price, max_price), rate.price, unpriced)


def _scale_rate(rate: ComponentRate, ratio: Decimal) -> ComponentRate:
    return replace(rate, usd_per_hour=rate.usd_per_hour * ratio if rate.usd_per_hour else None)


def _missing_price(component: CostComponent, item: str, purchase: str) -> str:
    return f"no {purchase} price for {item} in {component.region or UNKNOWN_REGION}"
