"""How the prices behind a bill moved, as far as the catalogue and the local store remember."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal

from gpufleet.catalog.prices import open_reader
from gpufleet.cost.money import to_decimal
from gpufleet.cost.pricing.bill import Charge

MOST = 8  # lines that a reader can tell apart
STORED = (
    "SELECT dated, usd_per_hour FROM prices WHERE cloud = ? AND region = ? AND item = ? AND purchase = ? "
    "AND dated <> '' AND upfront IN ('', 'none') ORDER BY dated"
)

Point = tuple[str, date, Decimal]  # what, day, USD per hour


def price_history(charges: Iterable[Charge]) -> list[Point]:
    """Return the dated prices of the items that cost most, each in its region and purchase."""
    spent: dict[tuple[str, str, str, str], Decimal] = {}
    used: dict[tuple[str, str, str, str], Charge] = {}
    for charge in charges:
        if charge.price and charge.purchase != "owned":
            key = (charge.cloud, charge.region, charge.item, charge.price.purchase)
            spent[key] = spent.get(key, Decimal(0)) + charge.usd_per_month.expected
            used[key] = charge
    dearest = sorted(spent, key=lambda key: (-spent[key], key))[:MOST]
    return [point for key in dearest for point in _points(key, used[key])]


def _points(key: tuple[str, str, str, str], charge: Charge) -> list[Point]:
    """Return one item's prices by day: the stored ones, and the one that the bill rests on."""
    days: dict[date, Decimal] = {}
    store = open_reader()
    for dated, usd in store.query(STORED, *key) if store else ():
        days[date.fromisoformat(dated)] = to_decimal(usd)
    if charge.price and charge.price.as_of_date:
        days[charge.price.as_of_date] = to_decimal(charge.price.usd_per_hour)
    name = f"{key[2]} in {key[1]}, {key[3].replace('_', ' ')}"
    return [(name, day, usd) for day, usd in sorted(days.items())]
