"""Prices of two days: separate the effect of the code from the effect of prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from gpufleet.cost.analysis.diff import CodeAndPriceEffects
from gpufleet.cost.money import ZERO, round_to_cents
from gpufleet.cost.pricing.bill import Bill, Charge, UnpricedResource
from gpufleet.cost.pricing.rates import PriceBook

Key = tuple[str, str]


def make_price_book_of_day(day: date | None) -> PriceBook:
    """Return the catalogue's prices on a day; None means the newest."""
    return PriceBook(on_date=day)


@dataclass(frozen=True)
class PriceDates:
    """The price days of before and after; None means the newest. Tests pass their own books."""

    before: date | None = None
    after: date | None = None
    book: Callable[[date | None], PriceBook] = make_price_book_of_day


def split_code_and_price_effects(
    dates: PriceDates, old: Bill, new_at_old_prices: Bill, new: Bill
) -> CodeAndPriceEffects:
    """Separate code from prices. ``between`` is the new bill at the old prices.

    An item with a price on one day only counts for neither: its full amount would look like a price change.
    """
    change = round_to_cents(new.usd_per_month.expected) - round_to_cents(old.usd_per_month.expected)
    priced_keys = _priced_on_both_days(new_at_old_prices, new)
    by_code = round_to_cents(new_at_old_prices.usd_per_month.expected) - round_to_cents(
        old.usd_per_month.expected
    )
    by_prices = round_to_cents(_sum_charges(new, priced_keys) - _sum_charges(new_at_old_prices, priced_keys))
    no_longer_priced = round_to_cents(
        _sum_charges(new_at_old_prices, _charge_keys(new_at_old_prices) - priced_keys)
    )
    by_code -= no_longer_priced  # without a price today the code's effect on it is unknown
    return CodeAndPriceEffects(dates.before, dates.after, by_code, by_prices, change - by_code - by_prices)


def exclude_items_priced_once(
    dates: PriceDates, old: Bill, new: Bill
) -> tuple[Bill, Bill, CodeAndPriceEffects]:
    """Exclude items with a price on one day only from both bills of a stack, and list them as unpriced."""
    priced_keys = _priced_on_both_days(old, new)
    excluded = sorted((_charge_keys(old) | _charge_keys(new)) - priced_keys)
    charges_by_key = {charge.comparison_key: charge for charge in (*old.charges, *new.charges)}
    unpriced_keys = {(gap.urn, gap.component) for gap in new.unpriced_resources}
    days = f"{dates.before or 'today'} and {dates.after or 'today'}"
    gaps = [_unpriced_resource(charges_by_key[key], days) for key in excluded if key not in unpriced_keys]
    bills = [
        replace(
            bill, charges=tuple(charge for charge in bill.charges if charge.comparison_key in priced_keys)
        )
        for bill in (old, new)
    ]
    after = replace(bills[1], unpriced_resources=(*bills[1].unpriced_resources, *gaps))
    change = round_to_cents(after.usd_per_month.expected) - round_to_cents(bills[0].usd_per_month.expected)
    return bills[0], after, CodeAndPriceEffects(dates.before, dates.after, ZERO, change, same_stack=True)


def _priced_on_both_days(one: Bill, other: Bill) -> set[Key]:
    """Return the keys of charges that have an exact price on both days."""
    return (_charge_keys(one) & _charge_keys(other)) - (_bounded_keys(one) ^ _bounded_keys(other))


def _charge_keys(bill: Bill) -> set[Key]:
    return {charge.comparison_key for charge in bill.charges}


def _bounded_keys(bill: Bill) -> set[Key]:
    return {(gap.urn, gap.component) for gap in bill.unpriced_resources if gap.is_bounded}


def _sum_charges(bill: Bill, keys: Iterable[Key]) -> Decimal:
    selected = set(keys)
    return sum((c.usd_per_month.expected for c in bill.charges if c.comparison_key in selected), ZERO)


def _unpriced_resource(charge: Charge, days: str) -> UnpricedResource:
    reason = f"{charge.item} in {charge.region} has a price on only one of {days}; left out on both sides"
    return UnpricedResource(
        charge.urn, charge.type, charge.name, reason, charge.component, pool=charge.pool, owner=charge.owner
    )
