"""What the checks may compare new rows with: last known prices, machines as described, where they are offered."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import replace

from gpufleet.catalog import table
from gpufleet.catalog.prices.checks import Known, Offering


def of_store(link: sqlite3.Connection | None, items: Iterable[tuple[str, str]]) -> Known:
    """Gather what store and embedded catalogue know about these machines and parts."""
    wanted = set(items)
    prices = {
        key: (price.usd_per_hour, price.as_of_date.isoformat() if price.as_of_date else "")
        for source in (table.prices(), table.part_prices())
        for key, price in source.items()
        if (key[0], key[2]) in wanted
    }
    if link is None:
        return replace(without_prices(), prices=prices)
    for cloud, item in wanted:
        found = link.execute(
            "SELECT region, purchase, usd_per_hour, dated FROM current WHERE cloud = ? AND item = ?",
            (cloud, item),
        )
        for region, purchase, usd, dated in found:
            key = (cloud, region, item, purchase)
            if key not in prices or dated >= prices[key][1]:
                prices[key] = (usd, dated)
    return replace(without_prices(), prices=prices)


def without_prices() -> Known:
    """Gather what is known about machines, without what they cost."""
    return Known({}, _accelerators(), _retired(), _offered())


def _accelerators() -> dict[tuple[str, str], float]:
    return {key: machine.cards for key, machine in table.machines().items() if machine.accelerators}


def _retired() -> dict[tuple[str, str], str]:
    return {key: gone.retired.isoformat() for key, gone in table.retirements().items()}


def _offered() -> dict[tuple[str, str], Offering]:
    return {
        (row["cloud"], machine): Offering(frozenset(row["regions"].split()), row["as_of"], row["source"])
        for row in table.rows("offered.csv")
        for machine in row["machines"].split()
    }
