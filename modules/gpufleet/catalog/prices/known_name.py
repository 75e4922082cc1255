"""Load the names of clouds, regions, machines and parts that have a price."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpufleet.catalog import data_file
from gpufleet.catalog.cloud import CLOUDS
from gpufleet.catalog.prices import snapshot
from gpufleet.catalog.prices.name_check import KnownNames


def load_known_names(connection: sqlite3.Connection | None) -> KnownNames:
    """Load the names of clouds, regions, machines and parts from the catalogue and the store."""
    units: dict[str, set[str]] = defaultdict(set)
    for key, price in data_file.load_cloud_part_prices().items():
        units[key[2]].add(price.unit)
    regions = (
        *((row["cloud"], row["region"]) for row in data_file.load_catalog_rows("regions.csv")),
        *((cloud, region) for cloud, region, _ in snapshot.list_region_members()),
        *((key[0], key[1]) for key in data_file.load_cloud_part_prices()),  # also multi-regions such as eu
    )
    items = {
        *data_file.load_machines(),
        *data_file.load_retirements(),
        *((cloud, name) for cloud in CLOUDS for name in snapshot.list_sized_machines(cloud)),
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


def _query_pairs(connection: sqlite3.Connection | None, query: str) -> Iterator[tuple[str, str]]:
    yield from connection.execute(query) if connection else ()


def _group_by_cloud(pairs: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    names_by_cloud: dict[str, set[str]] = defaultdict(set)
    for cloud, name in pairs:
        names_by_cloud[cloud].add(name)
    return {cloud: frozenset(names) for cloud, names in names_by_cloud.items()}
