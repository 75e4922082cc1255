"""The catalogue's data files as typed values, each file read once per process."""

from __future__ import annotations

from functools import cache
from typing import get_args

from gpufleet.boundary import CsvRow, read_packaged_rows
from gpufleet.catalog.cloud import CLOUDS
from gpufleet.catalog.entry import (
    HOURS_PER_MONTH,
    Confidence,
    Machine,
    MachineAccelerators,
    MachineRetirement,
    Price,
)
from gpufleet.catalog.machine_facts import get_machine_facts

Row = CsvRow
PriceKey = tuple[str, str, str, str]  # cloud, region, machine or part, purchase


def load_catalog_rows(file_name: str) -> list[Row]:
    """Return the rows of one data file."""
    return read_packaged_rows("gpufleet.catalog", f"data/{file_name}")


@cache
def load_machines() -> dict[tuple[str, str], Machine]:
    """Return every machine by cloud and name."""
    rented = {(row["cloud"], row["name"]): _build_machine(row) for row in load_catalog_rows("machines.csv")}
    return rented | {
        ("onprem", row["name"]): _build_onprem_machine(row) for row in load_catalog_rows("hosts.csv")
    }


@cache
def load_retirements() -> dict[tuple[str, str], MachineRetirement]:
    """Return every retired machine by cloud and name."""
    return {
        (row["cloud"], row["machine"]): _build_retirement(row) for row in load_catalog_rows("retired.csv")
    }


@cache
def load_machine_prices() -> dict[PriceKey, Price]:
    """Return every machine price by cloud, region, machine and purchase."""
    return {
        (row["cloud"], row["region"], row["machine"], row["purchase"]): _build_price(
            row, unit="machine", usd_per_hour=row.get_number("usd_per_hour")
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
def list_parts_used_up() -> frozenset[str]:
    """Return the names of parts that bill by the amount used up, not by time."""
    return frozenset(part for (_, part), periods in load_part_periods().items() if "use" in periods)


@cache
def list_parts_billed_by_month() -> frozenset[str]:
    """Return the names of parts with a price for a month, however many days it has: disks, keys, rules."""
    return frozenset(part for (_, part), periods in load_part_periods().items() if "month" in periods)


@cache
def _load_parts() -> tuple[dict[PriceKey, Price], dict[tuple[str, str, str], str]]:
    """Return the prices of parts, and what each is of, by cloud, region and part."""
    hours = {"hour": 1, "month": HOURS_PER_MONTH, "use": 1}  # of what is used up: the price of one each hour
    prices: dict[PriceKey, Price] = {}
    periods: dict[tuple[str, str, str], str] = {}
    for row in _load_part_rows():
        period = row.get_choice("per", tuple(hours))
        place = (row["cloud"], row["region"], row["part"])
        prices[*place, row["purchase"]] = _build_price(
            row, unit=row["unit"], usd_per_hour=row.get_number("usd") / hours[period]
        )
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
    return Machine(
        name=row["name"],
        cloud=row["cloud"],
        vcpus=row.get_integer("vcpus"),
        memory_gib=row.get_number("memory_gib"),
        arch=row["arch"],
        accelerators=_build_accelerator_counts(row, share=row.get_number("accelerator_share", default=1.0)),
        attachable=row.get_words("attachable"),
        source=row["source"],
        as_of=row["as_of"],
        fabric=facts.fabric if facts else None,
        fabric_interfaces=facts.fabric_interfaces if facts else 0,
    )


def _build_onprem_machine(row: Row) -> Machine:
    return Machine(
        name=row["name"],
        cloud="onprem",
        vcpus=row.get_integer("vcpus"),
        memory_gib=row.get_number("memory_gib"),
        arch=row["arch"],
        accelerators=_build_accelerator_counts(row, share=1.0),
        attachable=(),
        source=row["source"],
        as_of=row["as_of"],
        board=row["board"],
        idle_watts=row.get_optional_number("idle_watts"),
        network_gb_s=row.get_optional_number("network_gb_s"),
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


def _build_retirement(row: Row) -> MachineRetirement:
    return MachineRetirement(
        machine=row["machine"],
        cloud=row["cloud"],
        retired=row.get_date("retired"),
        substitutes=row.get_words("substitutes"),
        source=row["source"],
    )


def _build_price(row: Row, *, unit: str, usd_per_hour: float) -> Price:
    return Price(
        usd_per_hour=usd_per_hour,
        unit=unit,
        as_of=row["as_of"] or None,
        source=row["source"],
        confidence=row.get_choice("confidence", get_args(Confidence)),
        region=row["region"],
        purchase=row["purchase"],
    )
