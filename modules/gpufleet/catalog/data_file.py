"""The catalogue's data files as typed values, each file read once per process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from gpufleet.boundary import CsvRow, build_from_row, read_packaged_rows, read_table
from gpufleet.catalog import price_table
from gpufleet.catalog.cloud import CLOUDS
from gpufleet.catalog.entry import Machine, MachineAccelerators, MachineRetirement, Price

PACKAGE = "gpufleet.catalog"
Row = CsvRow
PriceKey = tuple[str, str, str, str]  # cloud, region, machine or part, purchase


def load_catalog_rows(file_name: str) -> list[Row]:
    """Return the rows of one data file."""
    return read_packaged_rows(PACKAGE, f"data/{file_name}")


@cache
def load_machines() -> dict[tuple[str, str], Machine]:
    """Return every machine by cloud and name."""
    machines = [
        *map(_build_machine, load_catalog_rows("machines.csv")),
        *(
            build_from_row(
                Machine,
                row,
                cloud="onprem",
                accelerators=_build_accelerator_counts(row, share=1.0),
                attachable=(),
            )
            for row in load_catalog_rows("hosts.csv")
        ),
    ]
    return {(machine.cloud, machine.name): machine for machine in machines}


@cache
def load_retirements() -> dict[tuple[str, str], MachineRetirement]:
    """Return every retired machine by cloud and name."""
    retirements = read_table(MachineRetirement, PACKAGE, "data/retired.csv")
    return {(retirement.cloud, retirement.machine): retirement for retirement in retirements}


@cache
def load_machine_prices() -> dict[PriceKey, Price]:
    """Return every listed machine price by cloud, region, machine and purchase."""
    return {
        (cloud, cells[0], machine, cells[1]): price_table.build_machine_price(cells)
        for cloud in CLOUDS
        for machine, *cells in price_table.iterate_table_rows("machine", cloud)
    }


def iterate_machine_prices(
    cloud: str | None = None, machine: str | None = None
) -> Iterator[tuple[PriceKey, Price]]:
    """Yield the listed machine prices of a cloud, or of a machine; the others are not read."""
    if cloud is None and machine is None:
        yield from load_machine_prices().items()
        return
    for each in CLOUDS if cloud is None else [cloud]:
        rows = (
            price_table.iterate_table_rows("machine", each)
            if machine is None
            else ([machine, *cells] for cells in price_table.find_item_rows("machine", each, machine))
        )
        for name, *cells in rows:
            yield (each, cells[0], name, cells[1]), price_table.build_machine_price(cells)


@cache
def load_cloud_part_prices() -> dict[PriceKey, Price]:
    """Return every listed part price by cloud, region, part and purchase; a month is 730 hours."""
    return {
        (cloud, cells[0], part, cells[1]): price_table.build_part_price(cells)
        for cloud in CLOUDS
        for part, *cells in price_table.iterate_table_rows("part", cloud)
    }


def find_part_period(cloud: str, region: str, part: str) -> str:
    """Return what the price of a part is of; where no row names it, what all regions have, else an hour."""
    rows = price_table.find_item_rows("part", cloud, part)
    known = {cells[4] for cells in rows if cells[0] == region} or {cells[4] for cells in rows}
    return next(iter(known)) if len(known) == 1 else "hour"


@cache
def list_parts_billed_by_month() -> frozenset[str]:
    """Return the names of parts with a price for a month, however many days it has: disks, keys, rules."""
    return frozenset(
        cells[0]
        for cloud in CLOUDS
        for cells in price_table.iterate_table_rows("part", cloud)
        if cells[5] == "month"
    )


@cache
def list_accelerator_regions(cloud: str) -> tuple[str, ...]:
    """Return the regions of a cloud in which the price sources list accelerated machines."""
    return tuple(row["region"] for row in load_catalog_rows("regions.csv") if row["cloud"] == cloud)


def _build_machine(row: Row) -> Machine:
    return build_from_row(
        Machine,
        row,
        accelerators=_build_accelerator_counts(row, share=row.get_number("accelerator_share", default=1.0)),
    )


def _build_accelerator_counts(row: Row, share: float) -> tuple[MachineAccelerators, ...]:
    if not row["accelerator"]:
        return ()
    return (
        MachineAccelerators(
            model=row["accelerator"],
            count=row.get_integer("accelerator_count"),
            memory_gib=row.get_number("accelerator_memory_gib"),
            share=share,
        ),
    )
