"""Cloud machines equivalent to a rack, and their cost.

The count matches the rack's cards if both have the same model; otherwise its cores and memory, core for core, on
machines whose cores are not older than the rack's. A newer core does more work; the comparison does not measure that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from gpufleet import catalog
from gpufleet.boundary import CsvRow, read_packaged_rows
from gpufleet.catalog import Machine, MachineAccelerators, Price
from gpufleet.catalog.prices.name_suggestion import check_searched_names
from gpufleet.cost.inputs.terms import TERMS
from gpufleet.cost.money import HOURS_PER_MONTH
from gpufleet.cost.pricing.rates import PriceBook
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from gpufleet.cost.analysis.tco.rack import RackCost

HOURS = float(HOURS_PER_MONTH)


@dataclass(frozen=True)
class CloudMachineRequest:
    """The requested machine, region and purchase; missing fields are chosen."""

    machine: str | None = None
    region: str = "us-east-1"
    purchase: str = "on_demand"
    count: int | None = None
    usd_per_hour: float | None = None
    storage: bool = True  # add disks of the rack's storage size


@dataclass(frozen=True)
class CloudAlternative:
    """A count of cloud machines, and disks for the rack's storage."""

    machine: str
    cloud: str
    region: str
    purchase: str
    count: int
    reason: str
    price: Price
    storage_usd_per_month: float
    note: str = ""

    def usd_per_month_at_utilisation(self, utilisation: float) -> float:
        """Return the monthly cost at a utilisation; commitments and disks bill the full month."""
        hours = HOURS if self.purchase in TERMS else HOURS * utilisation
        return self.count * self.price.usd_per_hour * hours + self.storage_usd_per_month


@dataclass(frozen=True)
class _Comparable:
    """A cloud machine to compare with a rack, and a remark about the match."""

    machine: Machine
    prices: dict[tuple[str, str], Price]  # region, purchase
    note: str = ""
    cortex: int = 0  # Arm's number of the core, or of the one that it was made from: 76 for Neoverse N1


@cache
def _load_comparables() -> dict[str, _Comparable]:
    """Return the CPU machines of ``comparables.csv``, each price with source and date."""
    return {
        row["machine"]: _read_comparable(row)
        for row in read_packaged_rows("gpufleet.cost", "data/comparables.csv")
    }


def _read_comparable(row: CsvRow) -> _Comparable:
    machine = Machine(
        name=row["machine"], cloud=row["cloud"], vcpus=row.get_integer("vcpus"),
        memory_gib=row.get_number("memory_gib"), arch=row["arch"], accelerators=(), attachable=(),
        source=row["source"], as_of=row["as_of"],
    )  # fmt: skip
    price = Price(
        row.get_number("usd_per_hour"),
        "machine",
        row["as_of"],
        row["source"],
        "high",
        row["region"],
        row["purchase"],
    )
    return _Comparable(
        machine, {(row["region"], row["purchase"]): price}, row["note"], row.get_integer("cortex")
    )


def _find_comparable(name: str) -> _Comparable:
    comparable = _load_comparables().get(name)
    return comparable or _Comparable(catalog.find_ordinary_machine(name) or catalog.get_machine(name), {})


def _find_price(comparable: _Comparable, request: CloudMachineRequest, book: PriceBook) -> Price | None:
    if request.usd_per_hour is not None:
        source = "--cloud-usd-per-hour"
        return Price(request.usd_per_hour, "machine", None, source, "low", request.region, request.purchase)
    catalogue_price = book.find_machine_price(
        comparable.machine.cloud, request.region, comparable.machine.name, request.purchase
    )
    return catalogue_price or comparable.prices.get((request.region, request.purchase))


def find_cloud_alternatives(
    rack: RackCost, request: CloudMachineRequest, book: PriceBook | None = None
) -> list[CloudAlternative]:
    """Return the equivalent machines with a price in the region, the cheapest first."""
    prices = book or PriceBook()
    names = _machines_with_cards(rack) if rack.cards else _machines_with_cores(rack)
    alternatives = [_make_alternative(rack, _find_comparable(name), request, prices) for name in names]
    priced_alternatives = [alternative for alternative in alternatives if alternative is not None]
    return sorted(
        priced_alternatives,
        key=lambda alternative: (alternative.usd_per_month_at_utilisation(1.0), alternative.machine),
    )


def _machines_with_cores(rack: RackCost) -> list[str]:
    """Return the CPU machines whose cores are not older than the newest of the rack's."""
    return sorted(name for name, each in _load_comparables().items() if each.cortex >= rack.cortex)


def _machines_with_cards(rack: RackCost) -> list[str]:
    """Return the cloud machines with complete cards of the rack's model."""
    from gpufleet.catalog import data_file

    return sorted(
        name
        for (cloud, name), machine in data_file.load_machines().items()
        if cloud != "onprem" and any(_is_same_card(rack, card) for card in machine.accelerators)
    )


def _is_same_card(rack: RackCost, card: MachineAccelerators) -> bool:
    return card.model in rack.cards and card.share == 1


def choose_cloud_alternative(
    rack: RackCost, request: CloudMachineRequest, book: PriceBook | None = None
) -> CloudAlternative:
    """Return the requested machine, else the cheapest equivalent one."""
    prices = book or PriceBook()
    if request.machine is not None:
        alternative = _make_alternative(rack, _find_comparable(request.machine), request, prices)
        if alternative is None:
            check_searched_names(None, request.region, None)
            problem = f"no {request.purchase} price of {request.machine} in {request.region}"
            raise InputError(
                problem, where="--against", remedy="give --cloud-usd-per-hour, or another region"
            )
        return alternative
    alternatives = find_cloud_alternatives(rack, request, prices)
    if not alternatives:
        check_searched_names(None, request.region, None)
        problem = (
            f"no {request.purchase} price in {request.region} of a machine that does what {rack.name} does"
        )
        raise InputError(problem, where="--region", remedy="give --against and --cloud-usd-per-hour")
    return alternatives[0]


def _make_alternative(
    rack: RackCost, comparable: _Comparable, request: CloudMachineRequest, book: PriceBook
) -> CloudAlternative | None:
    price = _find_price(comparable, request, book)
    if price is None:
        return None
    if request.count is None:
        count, because = _equivalent_count(rack, comparable.machine)
    else:
        count, because = request.count, "as requested"
    disk, storage_note = (
        _storage_cost(rack, comparable.machine.cloud, request.region, book) if request.storage else (0.0, "")
    )
    note = "; ".join(part for part in (comparable.note, storage_note) if part)
    return CloudAlternative(
        comparable.machine.name, comparable.machine.cloud, request.region, request.purchase, count, because, price,
        disk, note,
    )  # fmt: skip


def _equivalent_count(rack: RackCost, machine: Machine) -> tuple[int, str]:
    """Return the equivalent number of machines, and what determines it."""
    for card in machine.accelerators:
        if _is_same_card(rack, card):
            return math.ceil(rack.cards[card.model] / card.count), f"{rack.cards[card.model]} x {card.model}"
    if rack.cores is None or rack.memory_gib is None:
        raise _build_unknown_size_error(rack, machine)
    cores, memory = math.ceil(rack.cores / machine.vcpus), math.ceil(rack.memory_gib / machine.memory_gib)
    if cores >= memory:
        return cores, f"{rack.cores} cores, core for core"
    return memory, f"{rack.memory_gib:g} GiB of memory"


def _build_unknown_size_error(rack: RackCost, machine: Machine) -> InputError:
    """Return an error that names the keys to declare; the rack's machine is not in the catalogue."""
    missing = {"vcpus": rack.cores, "memory_gib": rack.memory_gib}
    keys = " and ".join(f"hardware.{key}" for key, value in missing.items() if value is None)
    cards = f" has no {' or '.join(rack.cards)}: it" if rack.cards else ""
    problem = f"{machine.name}{cards} is compared by cores and memory, but the rack file has no {keys}"
    return InputError(problem, where=rack.name, remedy="declare them, or give --cloud-count")


def _storage_cost(rack: RackCost, cloud: str, region: str, book: PriceBook) -> tuple[float, str]:
    """Return the monthly cost of disks of the rack's size, and a note about them."""
    if not rack.storage_gib:
        return 0.0, ""
    disk_part = catalog.CLOUDS[cloud].disk_part or ""
    price = book.find_cloud_part_price(cloud, region, disk_part, "on_demand")
    if price is None:
        return 0.0, f"{rack.storage_gib:,.0f} GiB of disks are not in the cloud's figure: no price"
    return rack.storage_gib * price.usd_per_hour * HOURS, f"{rack.storage_gib:,.0f} GiB of {disk_part}"
