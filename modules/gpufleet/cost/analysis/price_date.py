"""Two sides at the prices of two days: what of a change the code makes, and what prices make by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from gpufleet.cost.analysis.diff import PriceMove
from gpufleet.cost.money import ZERO, round_to_cents
from gpufleet.cost.pricing.bill import Bill, Charge, UnpricedResource
from gpufleet.cost.pricing.rates import PriceBook

Key = tuple[str, str]


def book_on(day: date | None) -> PriceBook:
    """Return the catalogue as it was on a day; None is as it is."""
    return PriceBook(on=day)


@dataclass(frozen=True)
class PriceDates:
    """The day whose prices each side takes, None for the newest; tests hand in their own books."""

    before: date | None = None
    after: date | None = None
    book: Callable[[date | None], PriceBook] = book_on


def split(dates: PriceDates, old: Bill, between: Bill, new: Bill) -> PriceMove:
    """Tell code from prices. ``between`` is the new side at the old side's prices.

    What has a price on one day only counts for neither: its whole amount would look like a price change.
    """
    change = round_to_cents(new.usd_per_month.expected) - round_to_cents(old.usd_per_month.expected)
    known = _both(between, new)
    by_code = round_to_cents(between.usd_per_month.expected) - round_to_cents(old.usd_per_month.expected)
    by_prices = round_to_cents(_sum(new, known) - _sum(between, known))
    lost = round_to_cents(_sum(between, _keys(between) - known))
    by_code -= lost  # it has no price today: what the code adds of it is not known
    return PriceMove(dates.before, dates.after, by_code, by_prices, change - by_code - by_prices)


def comparable(dates: PriceDates, old: Bill, new: Bill) -> tuple[Bill, Bill, PriceMove]:
    """Leave out of both sides of the same stack what has a price on one day only, and say so."""
    known = _both(old, new)
    left_out = sorted((_keys(old) | _keys(new)) - known)
    listed = {charge.key: charge for charge in (*old.charges, *new.charges)}
    told = {(gap.urn, gap.component) for gap in new.unpriced}
    days = f"{dates.before or 'today'} and {dates.after or 'today'}"
    gaps = [_gap(listed[key], days) for key in left_out if key not in told]
    sides = [
        replace(side, charges=tuple(charge for charge in side.charges if charge.key in known))
        for side in (old, new)
    ]
    after = replace(sides[1], unpriced=(*sides[1].unpriced, *gaps))
    change = round_to_cents(after.usd_per_month.expected) - round_to_cents(sides[0].usd_per_month.expected)
    return sides[0], after, PriceMove(dates.before, dates.after, ZERO, change, same_stack=True)


def _both(one: Bill, other: Bill) -> set[Key]:
    """Return the charges that rest on a price of their own on both days, not on a bound."""
    return (_keys(one) & _keys(other)) - (_bounded(one) ^ _bounded(other))


def _keys(bill: Bill) -> set[Key]:
    return {charge.key for charge in bill.charges}


def _bounded(bill: Bill) -> set[Key]:
    return {(gap.urn, gap.component) for gap in bill.unpriced if gap.is_bounded}


def _sum(bill: Bill, keys: Iterable[Key]) -> Decimal:
    wanted = set(keys)
    return sum((c.usd_per_month.expected for c in bill.charges if c.key in wanted), ZERO)


def _gap(charge: Charge, days: str) -> UnpricedResource:
    reason = f"{charge.item} in {charge.region} has a price on only one of {days}; left out on both sides"
    return UnpricedResource(
        charge.urn, charge.type, charge.name, reason, charge.component, pool=charge.pool, owner=charge.owner
    )
