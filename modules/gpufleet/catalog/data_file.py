"""The catalogue's data files as typed values, each file read once per process."""

from __future__ import annotations

from functools import cache

from gpufleet.boundary import CsvRow, build_from_row, read_packaged_rows, read_table
from gpufleet.catalog.cloud import CLOUDS
from gpufleet.catalog.entry import (
    HOURS_PER_MONTH,
    Machine,
    MachineAccelerators,
    MachineRetirement,
    Price,
)
from gpufleet.catalog.machine_facts import get_machine_facts

PACKAGE = "gpufleet.catalog"
Row = CsvRow
PERIODS = ("hour", "month", "use")  # of what is used up, the price of one counts as its price of an hour
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
    """Return every machine price by cloud, region, machine and purchase."""
    return {
        (row["cloud"], row["region"], row["machine"], row["purchase"]): build_from_row(
            Price, row, unit="machine"
        )
        for row in load_catalog_rows("prices.csv")
    }


@cache
def load_cloud_part_prices() -> dict[PriceKey, Price]:
    """Return every part price by cloud, region, part and purchase; a month is 730 hours."""
    return _load_parts()[0]


@cache
def load_part_periods() -> dict[tuple[str, str], frozenset[str]]:
    """Return what the prices of a part are of, by cloud and part: an hour, a month, or use."""
    periods: dict[tuple[str, str], set[str]] = {}
    for (cloud, _, part), period in _load_parts()[1].items():
        periods.setdefault((cloud, part), set()).add(period)
    return {key: frozenset(each) for key, each in periods.items()}


def find_part_period(cloud: str, region: str, part: str) -> str:
    """Return what the price of a part is of; where no row names it, what all regions have, else an hour."""
    period = _load_parts()[1].get((cloud, region, part))
    known = load_part_periods().get((cloud, part), frozenset())
    return period or (next(iter(known)) if len(known) == 1 else "hour")


@cache
def list_parts_billed_by_month() -> frozenset[str]:
    """Return the names of parts with a price for a month, however many days it has: disks, keys, rules."""
    return frozenset(part for (_, part), periods in load_part_periods().items() if "month" in periods)


@cache
def _load_parts() -> tuple[dict[PriceKey, Price], dict[tuple[str, str, str], str]]:
    """Return the prices of parts, and what each is of, by cloud, region and part."""
    prices: dict[PriceKey, Price] = {}
    periods: dict[tuple[str, str, str], str] = {}
    for row in _load_part_rows():
        period = row.get_choice("per", PERIODS)
        place = (row["cloud"], row["region"], row["part"])
        usd_per_hour = row.get_number("usd") / (HOURS_PER_MONTH if period == "month" else 1)
        prices[*place, row["purchase"]] = build_from_row(Price, row, usd_per_hour=usd_per_hour)
        periods[place] = period
    return prices, periods


def _load_part_rows() -> list[Row]:
    file_names = ("parts.csv", *(f"service_parts_{cloud}.csv" for cloud in CLOUDS))
    return [row for file_name in file_names for row in load_catalog_rows(file_name)]


@cache
def list_accelerator_regions(cloud: str) -> tuple[str, ...]:
    """Return the regions of a cloud in which the price sources list accelerated machines."""
    return tuple(row["region"] for row in load_catalog_rows("regions.csv") if row["cloud"] == cloud)


def _build_machine(row: Row) -> Machine:
    facts = get_machine_facts(row["name"], row["cloud"])
    return build_from_row(
        Machine,
        row,
        accelerators=_build_accelerator_counts(row, share=row.get_number("accelerator_share", default=1.0)),
        fabric=facts.fabric if facts else None,
        fabric_interfaces=facts.fabric_interfaces if facts else 0,
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
