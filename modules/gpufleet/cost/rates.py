"""What one unit costs under its terms.

Policy for what the price list does not hold, decided once:

* what may be spot, where only deployment tells, is taken at on-demand and may be as low as spot;
* spot with an on-demand fallback ranges from the spot price (expected) up to on-demand;
* a missing spot or commitment price is never replaced by an old or foreign one: on-demand, which neither
  exceeds, is taken as expected and high, zero as low, and the resource is listed as unpriced for that
  purchase;
* a commitment without a term (reserved capacity) bills at on-demand;
* the most that a program offers for spot bounds it; a lower one than the market's price may buy nothing;
* no price at all: the resource is left out of the totals and listed, never counted as zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache, partial

from gpufleet import catalog
from gpufleet.catalog import Price
from gpufleet.cost.demand import Demand, Gap
from gpufleet.cost.money import ZERO, Range, exact
from gpufleet.cost.terms import TERMS
from gpufleet.cost.weighing import bills

Lookup = Callable[[str, str, str, str], Price | None]  # cloud, region, item, purchase


@dataclass(frozen=True)
class PriceBook:
    """Where prices are looked up: the catalogue, as it is or as it was ``on`` a day; tests hand in their own."""

    machine: Lookup = catalog.price
    part: Lookup = catalog.part_price
    on: date | None = None

    def __post_init__(self) -> None:
        if self.on is not None:
            for name, lookup in (("machine", catalog.price), ("part", catalog.part_price)):
                object.__setattr__(self, name, partial(lookup, on=self.on))


def remembering(book: PriceBook) -> PriceBook:
    """Return the same book for one bill: a price that is asked for a thousand times is looked up once."""
    return PriceBook(cache(book.machine), cache(book.part))


@dataclass(frozen=True)
class Rate:
    """Dollars per unit and hour, the price it rests on, and what is missing.

    ``whole`` is what the whole demand costs where that is not its count times the rate.
    """

    usd_per_hour: Range | None
    price: Price | None
    gap: Gap | None = None
    whole: Range | None = None


def rate(demand: Demand, book: PriceBook) -> Rate:
    """Price one unit of a demand."""
    if demand.own_price:
        return Rate(Range.of(demand.own_price.usd_per_hour), demand.own_price)
    found = [_one(demand, item, book) for item in demand.items]
    whole = None
    if demand.units and all(each.usd_per_hour for each in found):
        prices = [each.usd_per_hour for each in found if each.usd_per_hour]
        whole = bills(demand.units, demand.weights, prices)
    if demand.shares:
        found = [_scaled(one, share) for one, share in zip(found, demand.shares, strict=True)]
    first = found[0]
    missing = next((each.gap for each in found if each.gap), None)
    ranges = [each.usd_per_hour for each in found if each.usd_per_hour]
    if first.usd_per_hour is None:
        return first
    low, high = min(r.low for r in ranges), max(r.high for r in ranges)
    return Rate(Range.spanning(low, first.usd_per_hour.expected, high), first.price, missing, whole)


def _one(demand: Demand, item: str, book: PriceBook) -> Rate:
    lookup = book.part if demand.part else book.machine
    on_demand = lookup(demand.cloud, demand.region, item, "on_demand")
    purchase = demand.terms.purchase
    if purchase in ("spot", *TERMS):
        special = lookup(demand.cloud, demand.region, item, purchase)
        return _capped(demand, item, _special(demand, item, special, on_demand))
    if on_demand is None:
        return Rate(None, None, Gap(_missing(demand, item, "on_demand"), demand.component))
    if demand.terms.unsure and purchase == "on_demand":
        return _unsure(demand, item, on_demand, lookup(demand.cloud, demand.region, item, "spot"))
    return Rate(Range.of(on_demand.usd_per_hour), on_demand)


def _unsure(demand: Demand, item: str, on_demand: Price, spot: Price | None) -> Rate:
    """Bound what may be spot by both prices; without one of spot, from below by nothing."""
    usual, least = exact(on_demand.usd_per_hour), exact(spot.usd_per_hour) if spot else ZERO
    gap = Gap(f"whether {item} is bought on spot is not known until deployment", demand.component)
    return Rate(Range.spanning(least, usual, usual), on_demand, gap)


def _special(demand: Demand, item: str, special: Price | None, on_demand: Price | None) -> Rate:
    reason = _missing(demand, item, demand.terms.purchase)
    if special is None and on_demand is None:
        return Rate(None, None, Gap(reason, demand.component))
    if special is None and on_demand is not None:
        bound = exact(on_demand.usd_per_hour)
        gap = Gap(f"{reason}; counted at on-demand, its upper bound", demand.component)
        return Rate(Range(ZERO, bound, bound), on_demand, gap)
    assert special is not None  # noqa: S101 - the two cases above leave only this
    usual = exact(special.usd_per_hour)
    if not demand.terms.fallback:
        return Rate(Range.of(usual), special)
    if on_demand is None:
        gap = Gap(_missing(demand, item, "on_demand") + ", to which it falls back", demand.component)
        return Rate(Range.of(usual), special, gap)
    return Rate(Range.spanning(usual, usual, exact(on_demand.usd_per_hour)), special)


def _capped(demand: Demand, item: str, found: Rate) -> Rate:
    """Bound spot by the most that is offered for it; where the market asks more, it may not run at all."""
    most, usual = demand.terms.max_price, found.usd_per_hour
    if most is None or usual is None or demand.terms.purchase != "spot" or most >= usual.high:
        return found
    if most >= usual.expected:
        return Rate(Range(usual.low, usual.expected, most), found.price, found.gap)
    gap = Gap(
        f"the most offered for spot, {most} USD an hour, is below the price of {item}", demand.component
    )
    return Rate(Range(ZERO, most, most), found.price, gap)


def _scaled(one: Rate, share: Decimal) -> Rate:
    return Rate(one.usd_per_hour * share if one.usd_per_hour else None, one.price, one.gap)


def _missing(demand: Demand, item: str, purchase: str) -> str:
    return f"no {purchase} price for {item} in {demand.region or 'an unknown region'}"
