"""The cloud's side: how many of which machine do the same, and what they cost.

As many machines as hold the rack's cards, where both have the same; else as many as have its cores and its
memory, core for core: a newer core does more, and nobody has measured ours against theirs here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from gpufleet import catalog
from gpufleet.boundary import packaged_rows
from gpufleet.catalog import AcceleratorCount, Machine, Price
from gpufleet.cost.inputs.terms import TERMS
from gpufleet.cost.money import HOURS_PER_MONTH
from gpufleet.cost.pricing.rates import PriceBook
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from gpufleet.cost.analysis.tco.rack import Own

HOURS = float(HOURS_PER_MONTH)


@dataclass(frozen=True)
class Request:
    """What is asked for; what is left out is chosen."""

    machine: str | None = None
    region: str = "us-east-1"
    purchase: str = "on_demand"
    count: int | None = None
    usd_per_hour: float | None = None
    storage: bool = True  # count disks for what the rack has on board


@dataclass(frozen=True)
class Cloud:
    """So many machines, and the disks that the rack has and they have not."""

    machine: str
    cloud: str
    region: str
    purchase: str
    count: int
    because: str
    price: Price
    storage_usd_per_month: float
    note: str = ""

    def usd_per_month(self, utilisation: float) -> float:
        """Return a month in which they run for a share of it; a commitment bills all of it, disks too."""
        hours = HOURS if self.purchase in TERMS else HOURS * utilisation
        return self.count * self.price.usd_per_hour * hours + self.storage_usd_per_month


@dataclass(frozen=True)
class _Known:
    """A machine that may stand against a rack, and a remark on how alike they are."""

    machine: Machine
    prices: dict[tuple[str, str], Price]  # region, purchase
    note: str = ""


@cache
def _comparables() -> dict[str, _Known]:
    """Return the machines without cards that are here to compare with, each price with source and date."""
    return {row["machine"]: _known(row) for row in packaged_rows("gpufleet.cost", "data/comparables.csv")}


def _known(row: dict[str, str]) -> _Known:
    machine = Machine(
        name=row["machine"], cloud=row["cloud"], vcpus=int(row["vcpus"]), memory_gib=float(row["memory_gib"]),
        arch=row["arch"], accelerators=(), fabric=None, fabric_interfaces=0, attachable=(),
        source=row["source"], as_of=row["as_of"],
    )  # fmt: skip
    price = Price(
        float(row["usd_per_hour"]),
        "machine",
        row["as_of"],
        row["source"],
        "high",
        row["region"],
        row["purchase"],
    )
    return _Known(machine, {(row["region"], row["purchase"]): price}, row["note"])


def _find(name: str) -> _Known:
    listed = _comparables().get(name)
    return listed or _Known(catalog.get_machine(name), {})


def _price(known: _Known, wanted: Request, book: PriceBook) -> Price | None:
    if wanted.usd_per_hour is not None:
        source = "--cloud-usd-per-hour"
        return Price(wanted.usd_per_hour, "machine", None, source, "low", wanted.region, wanted.purchase)
    own = book.machine(known.machine.cloud, wanted.region, known.machine.name, wanted.purchase)
    return own or known.prices.get((wanted.region, wanted.purchase))


def candidates(of: Own, wanted: Request, book: PriceBook | None = None) -> list[Cloud]:
    """Return every machine with a price there that does what the rack does, the cheapest first."""
    prices = book or PriceBook()
    names = sorted(_comparables()) if not of.cards else _with_cards(of)
    found = [_cloud(of, _find(name), wanted, prices) for name in names]
    priced = [cloud for cloud in found if cloud is not None]
    return sorted(priced, key=lambda cloud: (cloud.usd_per_month(1.0), cloud.machine))


def _with_cards(of: Own) -> list[str]:
    """Return the cloud machines that carry one of the rack's cards, whole."""
    from gpufleet.catalog import table

    return sorted(
        name
        for (cloud, name), machine in table.load_machines().items()
        if cloud != "onprem" and any(_same(of, carried) for carried in machine.accelerators)
    )


def _same(of: Own, carried: AcceleratorCount) -> bool:
    return carried.model in of.cards and carried.share == 1


def chosen(of: Own, wanted: Request, book: PriceBook | None = None) -> Cloud:
    """Return the machines to compare with: those asked for, else the cheapest that do the same."""
    prices = book or PriceBook()
    if wanted.machine is not None:
        cloud = _cloud(of, _find(wanted.machine), wanted, prices)
        if cloud is None:
            problem = f"no {wanted.purchase} price of {wanted.machine} in {wanted.region}"
            raise InputError(
                problem, where="--against", remedy="give --cloud-usd-per-hour, or another region"
            )
        return cloud
    found = candidates(of, wanted, prices)
    if not found:
        problem = f"no {wanted.purchase} price in {wanted.region} of a machine that does what {of.name} does"
        raise InputError(problem, where="--region", remedy="give --against and --cloud-usd-per-hour")
    return found[0]


def _cloud(of: Own, known: _Known, wanted: Request, book: PriceBook) -> Cloud | None:
    price = _price(known, wanted, book)
    if price is None:
        return None
    count, because = _count(of, known.machine)
    if wanted.count is not None:
        count, because = wanted.count, "as asked for"
    disk, told = _storage(of, known.machine.cloud, wanted.region, book) if wanted.storage else (0.0, "")
    note = "; ".join(part for part in (known.note, told) if part)
    return Cloud(
        known.machine.name, known.machine.cloud, wanted.region, wanted.purchase, count, because, price, disk, note
    )  # fmt: skip


def _count(of: Own, machine: Machine) -> tuple[int, str]:
    """Return how many machines do what the rack does, and what decides."""
    for carried in machine.accelerators:
        if _same(of, carried):
            return math.ceil(
                of.cards[carried.model] / carried.count
            ), f"{of.cards[carried.model]} x {carried.model}"
    cores, memory = math.ceil(of.cores / machine.vcpus), math.ceil(of.memory_gib / machine.memory_gib)
    if cores >= memory:
        return cores, f"{of.cores} cores, core for core"
    return memory, f"{of.memory_gib:g} GiB of memory"


def _storage(of: Own, cloud: str, region: str, book: PriceBook) -> tuple[float, str]:
    """Return what disks of the rack's size cost there a month, all month; a missing price is told."""
    if not of.storage_gib:
        return 0.0, ""
    disk_part = catalog.CLOUDS[cloud].disk_part or ""
    price = book.part(cloud, region, disk_part, "on_demand")
    if price is None:
        return 0.0, f"{of.storage_gib:,.0f} GiB of disks are not in the cloud's figure: no price"
    return of.storage_gib * price.usd_per_hour * HOURS, f"{of.storage_gib:,.0f} GiB of {disk_part}"
