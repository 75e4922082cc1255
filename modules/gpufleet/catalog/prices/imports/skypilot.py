"""SkyPilot's catalogue: ``vms.csv`` of AWS, Google and Azure (schema v5 and later), one row a zone.

Google's rows are halves: a host without its cards, and cards (whose price is for all of ``AcceleratorCount``) without
a host. They are put together where machines.csv says which cards a machine has; a host whose cards have no price is
given as it stands, so that the checks set it apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from gpufleet.catalog import table
from gpufleet.catalog.model import Machine
from gpufleet.catalog.prices.checks import ALMOST_FULL
from gpufleet.catalog.prices.imports import names
from gpufleet.catalog.prices.imports.sheet import Origin, Record, Sheet
from gpufleet.catalog.prices.row import Facts, Kind, PriceRow

NEEDED = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Region", "Price", "SpotPrice")
ATTACHED = {
    "T4": "nvidia-tesla-t4",
    "P4": "nvidia-tesla-p4",
    "P100": "nvidia-tesla-p100",
    "V100": "nvidia-tesla-v100",
}
MEGA = "H100-MEGA"
SIZE = re.compile(r"(tpu-v\d\w*?)-(\d+)$")  # tpu-v6e-8: eight chips


@dataclass(frozen=True)
class Zone:
    """One row: prices per hour, None where it has none."""

    record: Record
    region: str
    zone: str
    price: float | None
    spot: float | None


def fits(sheet: Sheet) -> bool:
    """Tell whether a file has SkyPilot's columns."""
    return {"InstanceType", "Price", "SpotPrice", "Region"} <= sheet.columns


def read(sheet: Sheet, origin: Origin) -> Iterator[PriceRow]:
    """Yield one price for each machine, region and purchase: of spot, the median of the zones that have a market."""
    sheet.need(*NEEDED)
    regions = {record.needed("Region") for record in sheet.records}
    cloud = origin.cloud or names.cloud_of(sheet.folder.lower(), regions, sheet.name)
    machines: dict[tuple[str, str], list[Zone]] = {}
    cards: dict[tuple[str, int, str], list[Zone]] = {}
    for record in sheet.records:
        zone = _zone(record)
        name = record.text("InstanceType")
        if name:
            machines.setdefault((name, zone.region), []).append(zone)
        else:
            model, count = record.needed("AcceleratorName"), int(record.number("AcceleratorCount") or 0)
            cards.setdefault((model, count, zone.region), []).append(zone)
    made = Maker(cloud, origin, cards)
    for (name, region), zones in machines.items():
        yield from made.machine(name, region, zones)
    for (model, count, region), zones in cards.items():
        yield from made.card(model, count, region, zones)


@dataclass(frozen=True)
class Maker:
    """Makes rows of one file."""

    cloud: str
    origin: Origin
    cards: dict[tuple[str, int, str], list[Zone]]

    def machine(self, name: str, region: str, zones: list[Zone]) -> Iterator[PriceRow]:
        """Yield the prices of a machine in a region, together with its cards where they stand apart."""
        facts = _facts(zones[0].record)
        price, spot = _price(zones), _spot(zones)
        known = table.machines().get((self.cloud, name))
        if self.cloud == "gcp" and known and known.accelerators and not facts.accelerators:
            beside = self._beside(known, region)
            if beside:
                price, spot = _sum(price, _price(beside)), _sum(spot, _spot(beside))
                card = known.accelerators[0]
                facts = Facts(
                    facts.vcpus, facts.memory_gib, facts.arch, card.model, known.cards, card.memory_gib
                )
        yield from self._rows(name, region, zones[0].record, (price, spot), facts)

    def card(self, model: str, count: int, region: str, zones: list[Zone]) -> Iterator[PriceRow]:
        """Yield the prices of cards that one may attach, and of TPU slices, which need no host."""
        slice_of, usd = SIZE.match(model), (_price(zones), _spot(zones))
        if slice_of:
            chips = int(slice_of[2])
            facts = Facts(accelerator=names.accelerator(slice_of[1]), accelerators=chips)
            yield from self._rows(model, region, zones[0].record, usd, facts)
        elif model in ATTACHED and count == 1:
            item = f"accelerator:{ATTACHED[model]}"
            yield from self._rows(item, region, zones[0].record, usd, None)

    def _beside(self, machine: Machine, region: str) -> list[Zone]:
        """Return the rows of the cards that a machine has, in its region."""
        wanted = machine.accelerators[0]
        found = [
            zones
            for (model, count, of), zones in self.cards.items()
            if of == region and count == wanted.count and names.accelerator(model) == wanted.model
            if (model == MEGA) == ("mega" in machine.name and "a3" in machine.name) or "H100" not in model
        ]
        return found[0] if found else []

    def _rows(
        self,
        item: str,
        region: str,
        record: Record,
        usd: tuple[float | None, float | None],
        facts: Facts | None,
    ) -> Iterator[PriceRow]:
        kind: Kind = "machine" if facts else "part"
        for purchase, price in zip(("on_demand", "spot"), usd, strict=True):
            if price is not None:
                yield PriceRow(
                    self.cloud, region, item, purchase, round(price, 6), self.origin.as_of, self.origin.source,
                    kind=kind, unit="machine" if facts else "accelerator", facts=facts, where=record.where,
                )  # fmt: skip


def _zone(record: Record) -> Zone:
    region = record.needed("Region")
    return Zone(
        record, region, record.text("AvailabilityZone"), record.number("Price"), record.number("SpotPrice")
    )


def _price(zones: list[Zone]) -> float | None:
    found = [zone.price for zone in zones if zone.price is not None]
    return median(found) if found else None


def _spot(zones: list[Zone]) -> float | None:
    """Return the median of the zones whose spot price is a market's; of all, where none is."""
    found = [(zone.spot, zone.price) for zone in zones if zone.spot is not None]
    real = [spot for spot, price in found if not price or _market(spot, price)]
    return median(real or [spot for spot, _ in found]) if found else None


def _market(spot: float, price: float) -> bool:
    return spot < ALMOST_FULL * price and round(spot / price, 3) != round(1 / 10, 3)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _facts(record: Record) -> Facts:
    model, count = record.text("AcceleratorName"), record.number("AcceleratorCount") or 0
    return Facts(
        vcpus=round(record.number("vCPUs") or 0),
        memory_gib=record.number("MemoryGiB") or 0.0,
        arch=record.text("Arch") or "x86_64",
        accelerator=names.accelerator(model) if model else "",
        accelerators=count if model else 0,
    )
