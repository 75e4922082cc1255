"""Prices of machines and parts, and machines without accelerators: the embedded ones, the snapshot and the store."""

from __future__ import annotations

from datetime import date

from gpufleet.catalog import data_file, price_table
from gpufleet.catalog.cloud import CLOUDS
from gpufleet.catalog.entry import Machine, Price
from gpufleet.catalog.prices import reader, snapshot
from gpufleet.catalog.prices.row import Kind


def find_machine(name: str, cloud: str) -> Machine | None:
    """Return a machine of a cloud, with accelerators or without; None if it is unknown."""
    return data_file.load_machines().get((cloud, name)) or snapshot.find_sized_machine(cloud, name)


def find_ordinary_machine(name: str, cloud: str | None = None) -> Machine | None:
    """Return a machine without accelerators, with its vCPUs and memory; None if the snapshot does not have it."""
    machines = (snapshot.find_sized_machine(each, name) for each in (CLOUDS if cloud is None else [cloud]))
    return next((machine for machine in machines if machine), None)


def find_machine_price(
    cloud: str, region: str, machine: str, purchase: str, on_date: date | None = None
) -> Price | None:
    """Return the newest list price of a machine dated ``on_date`` or earlier; None if no reliable price is known.

    ``machine`` may name a licensed system: ``m5.large:windows``, ``:rhel``, ``:sles``. Without one it is Linux.
    """
    return _find_newest_price("machine", (cloud, region, machine, purchase), on_date)


def find_cloud_part_price(
    cloud: str, region: str, part: str, purchase: str = "on_demand", on_date: date | None = None
) -> Price | None:
    """Return the price of a part (disk, address, attached card, database) per unit and hour."""
    return _find_newest_price("part", (cloud, region, part, purchase), on_date)


def _find_newest_price(kind: Kind, key: data_file.PriceKey, on_date: date | None) -> Price | None:
    """Return the newest embedded or stored price; of the same day, the stored one. Undated prices are oldest."""
    machine = data_file.load_machines().get((key[0], key[2])) if kind == "machine" else None
    has_accelerators = machine is not None and bool(machine.accelerators)  # the snapshot has no such machine
    own_price = price_table.find_listed_price(kind, *key)
    # Of a machine with accelerators the snapshot has only the places that the list does not have, such as local zones.
    is_in_snapshot = own_price is None or not has_accelerators
    ordinary_price = snapshot.find_snapshot_price(kind, *key) if is_in_snapshot else None
    embedded = [price for price in (own_price, ordinary_price) if price]
    days = [price.earliest_price_date for price in embedded]
    candidates = [
        (day.isoformat() if day else "", price)
        for price, day in zip(embedded, days, strict=True)
        if on_date is None or day is None or day <= on_date
    ]
    newest = max(candidates, key=lambda candidate: candidate[0], default=None)
    store = reader.open_price_reader()
    stored_price = store.find_newest_price(*key, on_date) if store else None
    if stored_price is None or (newest is not None and stored_price[1] < newest[0]):
        return newest[1] if newest else None
    return stored_price[0]


def list_machine_regions(cloud: str, machine: str) -> tuple[str, ...]:
    """Return the regions in which the catalogue has a price for that machine."""
    regions = {cells[0] for cells in price_table.find_item_rows("machine", cloud, machine)}
    regions.update(snapshot.list_snapshot_regions(cloud, machine))
    return tuple(sorted(regions | list_stored_regions(cloud, machine)))


def list_stored_regions(cloud: str, item: str) -> set[str]:
    """Return the regions in which the store has a price of a machine or part."""
    store = reader.open_price_reader()
    query = "SELECT DISTINCT region FROM current WHERE cloud = ? AND item = ?"
    return {region for (region,) in store.run_query(query, cloud, item)} if store else set()
