"""SkyPilot's catalogue: ``vms.csv`` of AWS, Google and Azure (schema v5 and later), one row a zone.

Google's rows are either a host without its cards, or cards without a host (one price for all of ``AcceleratorCount``).
They are combined if machines.csv states the cards of the machine. A host whose cards have no price stays as it is, so
that the checks set it apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from gpufleet.catalog import data_file
from gpufleet.catalog.attachable_card import CARD_TYPES, get_card_part
from gpufleet.catalog.entry import Machine
from gpufleet.catalog.prices.check import NEAR_ON_DEMAND_SHARE
from gpufleet.catalog.prices.imports import translation
from gpufleet.catalog.prices.imports.sheet import PriceOrigin, PriceSheet, SheetRecord
from gpufleet.catalog.prices.row import Kind, MachineFacts, PriceRow

REQUIRED_COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Region", "Price", "SpotPrice")
H100_MEGA = "H100-MEGA"
TPU_SLICE = re.compile(r"(tpu-v\d\w*?)-(\d+)$")  # tpu-v6e-8: eight chips


@dataclass(frozen=True)
class ZonePrice:
    """One row with its prices per hour, None if missing."""

    record: SheetRecord
    region: str
    zone: str
    price: float | None
    spot: float | None


def can_read_sheet(sheet: PriceSheet) -> bool:
    """Return whether a sheet has SkyPilot's columns."""
    return {"InstanceType", "Price", "SpotPrice", "Region"} <= sheet.columns


def read_price_rows(sheet: PriceSheet, origin: PriceOrigin) -> Iterator[PriceRow]:
    """Yield one price for each machine, region and purchase: of spot, the median of the zones with market prices."""
    sheet.require_columns(*REQUIRED_COLUMNS)
    regions = {record.require_text("Region") for record in sheet.records}
    cloud = origin.cloud or translation.detect_price_file_cloud(sheet.folder.lower(), regions, sheet.name)
    machines: dict[tuple[str, str], list[ZonePrice]] = {}
    accelerator_zones: dict[tuple[str, int, str], list[ZonePrice]] = {}
    for record in sheet.records:
        zone = _build_zone(record)
        name = record.get_text("InstanceType")
        if name:
            machines.setdefault((name, zone.region), []).append(zone)
        else:
            model, count = (
                record.require_text("AcceleratorName"),
                int(record.parse_number("AcceleratorCount") or 0),
            )
            accelerator_zones.setdefault((model, count, zone.region), []).append(zone)
    builder = SkyPilotRowBuilder(cloud, origin, accelerator_zones)
    for (name, region), zones in machines.items():
        yield from builder.build_machine_rows(name, region, zones)
    for (model, count, region), zones in accelerator_zones.items():
        yield from builder.build_accelerator_rows(model, count, region, zones)


@dataclass(frozen=True)
class SkyPilotRowBuilder:
    """Builds the price rows of one file."""

    cloud: str
    origin: PriceOrigin
    cards: dict[tuple[str, int, str], list[ZonePrice]]

    def build_machine_rows(self, name: str, region: str, zones: list[ZonePrice]) -> Iterator[PriceRow]:
        """Yield the prices of a machine in a region, including its cards if these have their own rows."""
        facts = _machine_facts(zones[0].record)
        price, spot = _median_price(zones), _median_spot(zones)
        catalog_machine = data_file.load_machines().get((self.cloud, name))
        if (
            self.cloud == "gcp"
            and catalog_machine
            and catalog_machine.accelerators
            and not facts.accelerators
        ):
            accelerator_zones = self._accelerator_zones(catalog_machine, region)
            if accelerator_zones:
                price, spot = (
                    _add_prices(price, _median_price(accelerator_zones)),
                    _add_prices(spot, _median_spot(accelerator_zones)),
                )
                accelerator = catalog_machine.accelerators[0]
                facts = MachineFacts(
                    facts.vcpus,
                    facts.memory_gib,
                    facts.arch,
                    accelerator.model,
                    catalog_machine.accelerator_count,
                    accelerator.memory_gib,
                )
        yield from self._price_rows(name, region, zones[0].record, (price, spot), facts)

    def build_accelerator_rows(
        self, model: str, count: int, region: str, zones: list[ZonePrice]
    ) -> Iterator[PriceRow]:
        """Yield the prices of attachable cards, and of TPU slices, which need no host."""
        slice_match, usd = TPU_SLICE.match(model), (_median_price(zones), _median_spot(zones))
        if slice_match:
            chips = int(slice_match[2])
            facts = MachineFacts(
                accelerator=translation.translate_accelerator_name(slice_match[1]), accelerators=chips
            )
            yield from self._price_rows(model, region, zones[0].record, usd, facts)
        elif model in CARD_TYPES and count == 1:
            item = get_card_part(model)
            yield from self._price_rows(item, region, zones[0].record, usd, None)

    def _accelerator_zones(self, machine: Machine, region: str) -> list[ZonePrice]:
        """Return the rows of a machine's cards in its region."""
        accelerator = machine.accelerators[0]
        matching_zones = [
            zones
            for (model, count, zone_region), zones in self.cards.items()
            if zone_region == region
            and count == accelerator.count
            and translation.translate_accelerator_name(model) == accelerator.model
            if (model == H100_MEGA) == ("mega" in machine.name and "a3" in machine.name)
            or "H100" not in model
        ]
        return matching_zones[0] if matching_zones else []

    def _price_rows(
        self,
        item: str,
        region: str,
        record: SheetRecord,
        usd: tuple[float | None, float | None],
        facts: MachineFacts | None,
    ) -> Iterator[PriceRow]:
        kind: Kind = "machine" if facts else "part"
        for purchase, price in zip(("on_demand", "spot"), usd, strict=True):
            if price is not None:
                yield PriceRow(
                    self.cloud, region, item, purchase, round(price, 6), self.origin.as_of, self.origin.source,
                    kind=kind, unit="machine" if facts else "accelerator", facts=facts, where=record.where,
                )  # fmt: skip


def _build_zone(record: SheetRecord) -> ZonePrice:
    region = record.require_text("Region")
    return ZonePrice(
        record,
        region,
        record.get_text("AvailabilityZone"),
        record.parse_number("Price"),
        record.parse_number("SpotPrice"),
    )


def _median_price(zones: list[ZonePrice]) -> float | None:
    prices = [zone.price for zone in zones if zone.price is not None]
    return median(prices) if prices else None


def _median_spot(zones: list[ZonePrice]) -> float | None:
    """Return the median of the zones with market prices, or of all zones if there are none."""
    prices = [(zone.spot, zone.price) for zone in zones if zone.spot is not None]
    market_prices = [spot for spot, price in prices if not price or _is_market_price(spot, price)]
    return median(market_prices or [spot for spot, _ in prices]) if prices else None


def _is_market_price(spot: float, price: float) -> bool:
    return spot < NEAR_ON_DEMAND_SHARE * price and round(spot / price, 3) != round(1 / 10, 3)


def _add_prices(price: float | None, other_price: float | None) -> float | None:
    return None if price is None or other_price is None else price + other_price


def _machine_facts(record: SheetRecord) -> MachineFacts:
    model, count = record.get_text("AcceleratorName"), record.parse_number("AcceleratorCount") or 0
    return MachineFacts(
        vcpus=round(record.parse_number("vCPUs") or 0),
        memory_gib=record.parse_number("MemoryGiB") or 0.0,
        arch=record.get_text("Arch") or "x86_64",
        accelerator=translation.translate_accelerator_name(model) if model else "",
        accelerators=count if model else 0,
    )
