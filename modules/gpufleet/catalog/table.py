"""The data files as typed rows. Everything is read once per process and never changed."""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import cast

from gpufleet.boundary import packaged_rows
from gpufleet.catalog.model import (
    HOURS_PER_MONTH,
    AcceleratorCount,
    Confidence,
    Machine,
    Price,
    Retirement,
)

Row = dict[str, str]
PriceKey = tuple[str, str, str, str]  # cloud, region, machine or part, purchase


def rows(name: str) -> list[Row]:
    """Return the rows of one data file."""
    return packaged_rows("gpufleet.catalog", f"data/{name}")


@cache
def machines() -> dict[tuple[str, str], Machine]:
    """Return every machine by cloud and name."""
    rented = {(row["cloud"], row["name"]): _machine(row) for row in rows("machines.csv")}
    return rented | {("onprem", row["name"]): _host(row) for row in rows("hosts.csv")}


@cache
def retirements() -> dict[tuple[str, str], Retirement]:
    """Return every retired machine by cloud and name."""
    return {(row["cloud"], row["machine"]): _retirement(row) for row in rows("retired.csv")}


@cache
def prices() -> dict[PriceKey, Price]:
    """Return every machine price by cloud, region, machine and purchase."""
    return {
        (row["cloud"], row["region"], row["machine"], row["purchase"]): _price(
            row, unit="machine", usd_per_hour=float(row["usd_per_hour"])
        )
        for row in rows("prices.csv")
    }


@cache
def part_prices() -> dict[PriceKey, Price]:
    """Return every part price by cloud, region, part and purchase; a month is 730 hours."""
    hours = {"hour": 1, "month": HOURS_PER_MONTH, "use": 1}  # of what is used up: the price of one each hour
    return {
        (row["cloud"], row["region"], row["part"], row["purchase"]): _price(
            row, unit=row["unit"], usd_per_hour=float(row["usd"]) / hours[row["per"]]
        )
        for row in rows("parts.csv")
    }


@cache
def regions(cloud: str) -> tuple[str, ...]:
    """Return the regions of a cloud in which the price sources list accelerated machines."""
    return tuple(row["region"] for row in rows("regions.csv") if row["cloud"] == cloud)


def _machine(row: Row) -> Machine:
    return Machine(
        name=row["name"],
        cloud=row["cloud"],
        vcpus=int(row["vcpus"]),
        memory_gib=float(row["memory_gib"]),
        arch=row["arch"],
        accelerators=_carried(row),
        fabric={"efa": "efa", "infiniband": "infiniband"}.get(row["fabric"]),  # type: ignore[arg-type]
        fabric_interfaces=int(row["fabric_interfaces"] or 0),
        attachable=tuple(row["attachable"].split()),
        source=row["source"],
        as_of=row["as_of"],
    )


def _host(row: Row) -> Machine:
    return Machine(
        name=row["name"],
        cloud="onprem",
        vcpus=int(row["vcpus"]),
        memory_gib=float(row["memory_gib"]),
        arch=row["arch"],
        accelerators=_carried({"accelerator_share": "1", **row}),
        fabric=None,
        fabric_interfaces=0,
        attachable=(),
        source=row["source"],
        as_of=row["as_of"],
        board=row["board"],
        idle_watts=float(row["idle_watts"]) if row["idle_watts"] else None,
        network_gb_s=float(row["network_gb_s"]) if row["network_gb_s"] else None,
    )


def _carried(row: Row) -> tuple[AcceleratorCount, ...]:
    if not row["accelerator"]:
        return ()
    return (
        AcceleratorCount(
            model=row["accelerator"],
            count=int(row["accelerator_count"]),
            memory_gib=float(row["accelerator_memory_gib"]),
            share=float(row["accelerator_share"]),
        ),
    )


def _retirement(row: Row) -> Retirement:
    return Retirement(
        machine=row["machine"],
        cloud=row["cloud"],
        retired=date.fromisoformat(row["retired"]),
        substitutes=tuple(row["substitutes"].split()),
        source=row["source"],
    )


def _price(row: Row, *, unit: str, usd_per_hour: float) -> Price:
    return Price(
        usd_per_hour=usd_per_hour,
        unit=unit,
        as_of=row["as_of"] or None,
        source=row["source"],
        confidence=cast("Confidence", row["confidence"]),
        region=row["region"],
        purchase=row["purchase"],
    )
