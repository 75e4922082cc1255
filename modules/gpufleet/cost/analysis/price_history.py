"""Dated prices behind a bill, from the catalogue and the local store."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal

from gpufleet.catalog.prices import open_price_reader
from gpufleet.cost.money import to_decimal
from gpufleet.cost.pricing.bill import Charge

MOST = 8  # lines that a reader can tell apart
STORED = (
    "SELECT dated, usd_per_hour FROM prices WHERE cloud = ? AND region = ? AND item = ? AND purchase = ? "
    "AND dated <> '' AND upfront IN ('', 'none') ORDER BY dated"
)

Point = tuple[str, date, Decimal]  # what, day, USD per hour


def load_price_history(charges: Iterable[Charge]) -> list[Point]:
    """Return the dated prices of the most expensive items, by region and purchase."""
    usd_by_key: dict[tuple[str, str, str, str], Decimal] = {}
    charge_by_key: dict[tuple[str, str, str, str], Charge] = {}
    for charge in charges:
        if charge.price and charge.purchase != "owned":
            key = (charge.cloud, charge.region, charge.item, charge.price.purchase)
            usd_by_key[key] = usd_by_key.get(key, Decimal(0)) + charge.usd_per_month.expected
            charge_by_key[key] = charge
    most_expensive = sorted(usd_by_key, key=lambda key: (-usd_by_key[key], key))[:MOST]
    return [point for key in most_expensive for point in _item_points(key, charge_by_key[key])]


def _item_points(key: tuple[str, str, str, str], charge: Charge) -> list[Point]:
    """Return one item's prices by day: those of the store, and the bill's own."""
    days: dict[date, Decimal] = {}
    store = open_price_reader()
    for dated, usd in store.run_query(STORED, *key) if store else ():
        days[date.fromisoformat(dated)] = to_decimal(usd)
    if charge.price and charge.price.earliest_price_date:
        days[charge.price.earliest_price_date] = to_decimal(charge.price.usd_per_hour)
    name = f"{key[2]} in {key[1]}, {key[3].replace('_', ' ')}"
    return [(name, day, usd) for day, usd in sorted(days.items())]
