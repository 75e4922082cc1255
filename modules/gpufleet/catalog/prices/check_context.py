"""Load what the checks compare new rows with: last prices, machine facts, offered regions.

Stored prices dated in the future are ignored: they would hide every later one.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from gpufleet.boundary import build_from_row
from gpufleet.catalog import data_file, price_table
from gpufleet.catalog.prices import name_check, schema, snapshot
from gpufleet.catalog.prices.check import MachineAvailability, PriceCheckContext
from gpufleet.catalog.prices.known_name import load_known_names
from gpufleet.catalog.prices.name_check import ONE_DAY
from gpufleet.catalog.prices.row import Kind, PriceRow, split_licensed_machine
from gpufleet.catalog.prices.size_check import MachineSize

SELECT_LAST_PRICES = f"""
    SELECT region, purchase, usd_per_hour, dated FROM (
        SELECT region, purchase, usd_per_hour, dated, row_number() OVER (
            PARTITION BY region, purchase ORDER BY {schema.PREFERENCE_ORDER}) AS place
        FROM prices WHERE cloud = ? AND item = ? AND dated <= ?)
    WHERE place = 1
"""  # noqa: S608 - our own column names


def load_price_check_context(
    connection: sqlite3.Connection | None, rows: Iterable[PriceRow]
) -> PriceCheckContext:
    """Load the context for these rows from the store, the catalogue and the embedded snapshot."""
    return PriceCheckContextLoader(connection).load_context(rows)


@dataclass(frozen=True)
class PriceCheckContextLoader:
    """Loads the contexts of several groups of rows; what does not depend on the rows is read once."""

    connection: sqlite3.Connection | None

    @cached_property
    def _common_context(self) -> PriceCheckContext:
        known = load_check_context_without_prices()
        if self.connection is None:
            return known
        sizes = {**dict(_query_stored_sizes(self.connection)), **known.sizes}
        return replace(known, names=load_known_names(self.connection), sizes=sizes)

    def load_context(self, rows: Iterable[PriceRow]) -> PriceCheckContext:
        """Load the context for these rows."""
        rows = list(rows)
        kinds = {key: row.kind for row in rows for key in (row.price_key, (*row.price_key[:3], "on_demand"))}
        prices = {
            key: last_price for key, kind in kinds.items() if (last_price := _find_embedded_price(key, kind))
        }
        for cloud, item in {(row.cloud, row.item) for row in rows} if self.connection else ():
            for key, price in self._query_last_prices(cloud, item):
                if key not in prices or price[1] >= prices[key][1]:
                    prices[key] = price
        machines = {(row.cloud, split_licensed_machine(row.item)[0]) for row in rows if row.kind == "machine"}
        sizes = {machine: size for machine in machines if (size := _find_embedded_size(machine))}
        return replace(self._common_context, prices=prices, sizes={**sizes, **self._common_context.sizes})

    def _query_last_prices(
        self, cloud: str, item: str
    ) -> Iterator[tuple[data_file.PriceKey, tuple[float, str]]]:
        if self.connection is None:
            return
        end = (name_check.utc_today() + ONE_DAY).isoformat()
        for region, purchase, usd, dated in self.connection.execute(SELECT_LAST_PRICES, (cloud, item, end)):
            yield (cloud, region, item, purchase), (usd, dated)


def _find_embedded_price(key: data_file.PriceKey, kind: Kind) -> tuple[float, str] | None:
    """Return the newest embedded price and its day; of the same day, the listed one."""
    listed = price_table.find_listed_price(kind, *key)
    candidates = [
        (price.usd_per_hour, price.earliest_price_date.isoformat() if price.earliest_price_date else "")
        for price in (listed, snapshot.find_snapshot_price(kind, *key))
        if price
    ]
    return max(candidates, key=lambda candidate: candidate[1], default=None)


def _find_embedded_size(machine: tuple[str, str]) -> MachineSize | None:
    sized_machine = snapshot.find_sized_machine(*machine)
    return (sized_machine.vcpus, sized_machine.memory_gib) if sized_machine else None


def load_check_context_without_prices() -> PriceCheckContext:
    """Load the context without prices."""
    return PriceCheckContext(
        accelerators=_load_accelerator_counts(),
        sizes=_load_machine_sizes(),
        part_prices=_load_part_prices(),
        retired=_load_retirement_days(),
        offered=_load_offerings(),
        names=load_known_names(None),
    )


def _query_stored_sizes(connection: sqlite3.Connection) -> Iterator[tuple[tuple[str, str], MachineSize]]:
    query = "SELECT cloud, item, vcpus, memory_gib FROM machines WHERE accelerators = 0 AND vcpus > 0"
    for cloud, item, vcpus, memory_gib in connection.execute(query):
        yield (cloud, item), (vcpus, memory_gib)


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


def _load_part_prices() -> dict[tuple[str, str], float]:
    """Load the median price of each part over the regions of the embedded tables."""
    prices: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (cloud, _, part, purchase), price in data_file.load_cloud_part_prices().items():
        if purchase == "on_demand" and price.usd_per_hour > 0:
            prices[cloud, part].append(price.usd_per_hour)
    return {part: median(amounts) for part, amounts in prices.items()}


def _load_retirement_days() -> dict[tuple[str, str], str]:
    return {key: retirement.retired.isoformat() for key, retirement in data_file.load_retirements().items()}


def _load_offerings() -> dict[tuple[str, str], MachineAvailability]:
    """Load Google's offerings: the price lists of AWS and Azure are themselves what says where they sell."""
    return {
        (row["cloud"], machine): build_from_row(MachineAvailability, row)
        for row in data_file.load_catalog_rows("offered.csv")
        if row["cloud"] == "gcp"
        for machine in row.get_words("machines")
    }
