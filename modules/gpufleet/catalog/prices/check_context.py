"""Load what the checks compare new rows with: last prices, machine facts, offered regions.

Stored prices dated in the future are ignored: they would hide every later one.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpufleet.catalog import data_file
from gpufleet.catalog.prices import name_check, schema
from gpufleet.catalog.prices.check import MachineAvailability, PriceCheckContext
from gpufleet.catalog.prices.name_check import ONE_DAY, KnownNames
from gpufleet.catalog.prices.size_check import MachineSize

SELECT_LAST_PRICES = f"""
    SELECT region, purchase, usd_per_hour, dated FROM (
        SELECT region, purchase, usd_per_hour, dated, row_number() OVER (
            PARTITION BY region, purchase ORDER BY {schema.PREFERENCE_ORDER}) AS place
        FROM prices WHERE cloud = ? AND item = ? AND dated <= ?)
    WHERE place = 1
"""  # noqa: S608 - our own column names


def load_price_check_context(
    connection: sqlite3.Connection | None, machines_and_parts: Iterable[tuple[str, str]]
) -> PriceCheckContext:
    """Load the context for these machines and parts from the store and the catalogue."""
    price_items = set(machines_and_parts)
    prices = {
        key: (price.usd_per_hour, price.earliest_price_date.isoformat() if price.earliest_price_date else "")
        for source in (data_file.load_machine_prices(), data_file.load_cloud_part_prices())
        for key, price in source.items()
        if (key[0], key[2]) in price_items
    }
    if connection is None:
        return replace(load_check_context_without_prices(), prices=prices)
    for cloud, item in price_items:
        rows = connection.execute(
            SELECT_LAST_PRICES, (cloud, item, (name_check.utc_today() + ONE_DAY).isoformat())
        )
        for region, purchase, usd, dated in rows:
            key = (cloud, region, item, purchase)
            if key not in prices or dated >= prices[key][1]:
                prices[key] = (usd, dated)
    known = load_check_context_without_prices()
    sizes = {**dict(_query_stored_sizes(connection)), **known.sizes}
    return replace(known, prices=prices, names=_load_known_names(connection), sizes=sizes)


def load_check_context_without_prices() -> PriceCheckContext:
    """Load the context without prices."""
    return PriceCheckContext(
        accelerators=_load_accelerator_counts(),
        sizes=_load_machine_sizes(),
        retired=_load_retirement_days(),
        offered=_load_offerings(),
        names=_load_known_names(None),
    )


def _load_known_names(connection: sqlite3.Connection | None) -> KnownNames:
    """Load the names of clouds, regions, machines and parts from the catalogue and the store."""
    units: dict[str, set[str]] = defaultdict(set)
    for key, price in data_file.load_cloud_part_prices().items():
        units[key[2]].add(price.unit)
    regions = ((row["cloud"], row["region"]) for row in data_file.load_catalog_rows("regions.csv"))
    items = {
        *data_file.load_machines(),
        *data_file.load_retirements(),
        *((key[0], key[2]) for key in data_file.load_cloud_part_prices()),
    }
    return KnownNames(
        _group_by_cloud((*regions, *_query_pairs(connection, "SELECT DISTINCT cloud, region FROM current"))),
        _group_by_cloud(
            (
                *items,
                *_query_pairs(
                    connection, "SELECT cloud, item FROM machines UNION SELECT cloud, item FROM current"
                ),
            )
        ),
        {item: frozenset(part_units) for item, part_units in units.items()},
    )


def _query_stored_sizes(connection: sqlite3.Connection) -> Iterator[tuple[tuple[str, str], MachineSize]]:
    query = "SELECT cloud, item, vcpus, memory_gib FROM machines WHERE accelerators = 0 AND vcpus > 0"
    for cloud, item, vcpus, memory_gib in connection.execute(query):
        yield (cloud, item), (vcpus, memory_gib)


def _query_pairs(connection: sqlite3.Connection | None, query: str) -> Iterator[tuple[str, str]]:
    yield from connection.execute(query) if connection else ()


def _group_by_cloud(pairs: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    names_by_cloud: dict[str, set[str]] = defaultdict(set)
    for cloud, name in pairs:
        names_by_cloud[cloud].add(name)
    return {cloud: frozenset(names) for cloud, names in names_by_cloud.items()}


def _load_accelerator_counts() -> dict[tuple[str, str], float]:
    return {
        key: machine.accelerator_count
        for key, machine in data_file.load_machines().items()
        if machine.accelerators
    }


def _load_machine_sizes() -> dict[tuple[str, str], MachineSize]:
    return {
        key: (machine.vcpus, machine.memory_gib)
        for key, machine in data_file.load_machines().items()
        if not machine.accelerators
    }


def _load_retirement_days() -> dict[tuple[str, str], str]:
    return {key: retirement.retired.isoformat() for key, retirement in data_file.load_retirements().items()}


def _load_offerings() -> dict[tuple[str, str], MachineAvailability]:
    return {
        (row["cloud"], machine): MachineAvailability(
            frozenset(row["regions"].split()), row["as_of"], row["source"]
        )
        for row in data_file.load_catalog_rows("offered.csv")
        for machine in row["machines"].split()
    }
