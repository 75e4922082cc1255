"""What the checks may compare new rows with: last known prices, machines as described, where they are offered.

A stored price whose day has not come counts as none: it would keep every later one from being compared.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpufleet.catalog import table
from gpufleet.catalog.prices import schema, vocabulary
from gpufleet.catalog.prices.checks import Known, Offering
from gpufleet.catalog.prices.vocabulary import DAY, Names

NEWEST = f"""
    SELECT region, purchase, usd_per_hour, dated FROM (
        SELECT region, purchase, usd_per_hour, dated, row_number() OVER (
            PARTITION BY region, purchase ORDER BY {schema.ORDER}) AS place
        FROM prices WHERE cloud = ? AND item = ? AND dated <= ?)
    WHERE place = 1
"""  # noqa: S608 - our own words


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
        found = link.execute(NEWEST, (cloud, item, (vocabulary.today() + DAY).isoformat()))
        for region, purchase, usd, dated in found:
            key = (cloud, region, item, purchase)
            if key not in prices or dated >= prices[key][1]:
                prices[key] = (usd, dated)
    return replace(without_prices(), prices=prices, names=_names(link))


def without_prices() -> Known:
    """Gather what is known about machines, without what they cost."""
    return Known({}, _accelerators(), _retired(), _offered(), _names(None))


def _names(link: sqlite3.Connection | None) -> Names:
    """Gather what clouds, regions, machines and parts are called, in the catalogue and in the store."""
    units: dict[str, set[str]] = defaultdict(set)
    for key, price in table.part_prices().items():
        units[key[2]].add(price.unit)
    regions = ((row["cloud"], row["region"]) for row in table.rows("regions.csv"))
    items = {*table.machines(), *table.retirements(), *((key[0], key[2]) for key in table.part_prices())}
    return Names(
        _by_cloud((*regions, *_stored(link, "SELECT DISTINCT cloud, region FROM current"))),
        _by_cloud(
            (*items, *_stored(link, "SELECT cloud, item FROM machines UNION SELECT cloud, item FROM current"))
        ),
        {item: frozenset(found) for item, found in units.items()},
    )


def _stored(link: sqlite3.Connection | None, query: str) -> Iterator[tuple[str, str]]:
    yield from link.execute(query) if link else ()


def _by_cloud(pairs: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for cloud, name in pairs:
        found[cloud].add(name)
    return {cloud: frozenset(names) for cloud, names in found.items()}


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
