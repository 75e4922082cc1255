"""gpuhunt's catalogue: the columns of its ``storage.CATALOG_V2_FIELDS`` (0.1.34), one file a provider.

The published archive is a zip of such files; a dump as JSON has the same names, and the provider.
A price covers the complete offer: Google's n1 with cards attached is another offer than the n1 alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from gpufleet.catalog.prices.imports import translation
from gpufleet.catalog.prices.imports.sheet import PriceOrigin, PriceSheet, SheetRecord
from gpufleet.catalog.prices.row import MachineFacts, PriceRow
from gpufleet.errors import InputError

REQUIRED_COLUMNS = (
    "instance_name",
    "location",
    "price",
    "cpu",
    "memory",
    "gpu_count",
    "gpu_name",
    "gpu_memory",
    "spot",
)
ARCH = {"x86": "x86_64", "arm": "arm64", "": "x86_64"}
ATTACHABLE_PREFIX = "n1-"
CALENDAR_FLAG = (
    "gcp-dws-calendar-mode"  # reserved for fixed days at about half of on-demand, but not marked as spot
)


def can_read_sheet(sheet: PriceSheet) -> bool:
    """Return whether a sheet has gpuhunt's columns."""
    return {"instance_name", "location", "price", "spot"} <= sheet.columns


def read_price_rows(sheet: PriceSheet, origin: PriceOrigin) -> Iterator[PriceRow]:
    """Yield one price for each machine, region and purchase: the median of its zones."""
    sheet.require_columns(*REQUIRED_COLUMNS)
    zones_by_offer: dict[tuple[str, ...], list[tuple[float, SheetRecord]]] = {}
    for record in sheet.records:
        if CALENDAR_FLAG in record.get_text("flags").split():
            continue
        cloud = _cloud_name(record, sheet, origin)
        price = record.parse_number("price")
        if price is None:
            raise InputError("is empty", where=record.where, key="price")
        region = translation.extract_region_of_location(record.require_text("location"), cloud)
        purchase = "spot" if _is_spot(record) else "on_demand"
        zones_by_offer.setdefault((cloud, region, _offer_name(record), purchase), []).append((price, record))
    for (cloud, region, item, purchase), zones in zones_by_offer.items():
        yield PriceRow(
            cloud,
            region,
            item,
            purchase,
            median(price for price, _ in zones),
            origin.as_of,
            origin.source,
            facts=_machine_facts(zones[0][1]),
            where=zones[0][1].where,
        )


def _cloud_name(record: SheetRecord, sheet: PriceSheet, origin: PriceOrigin) -> str:
    cloud = origin.cloud or record.get_text("provider").lower() or sheet.stem.lower()
    if not cloud.isidentifier():
        raise InputError("does not state its cloud", where=sheet.name, remedy="give --cloud")
    return cloud


def _is_spot(record: SheetRecord) -> bool:
    text = record.get_text("spot").lower()
    if text not in {"true", "false"}:
        raise InputError(f"{text!r} is neither True nor False", where=record.where, key="spot")
    return text == "true"


def _offer_name(record: SheetRecord) -> str:
    """Return the name of an offer; a machine with attached cards has its own name."""
    name, count = record.require_text("instance_name"), int(record.parse_number("gpu_count") or 0)
    return (
        f"{name}+{count}x{record.get_text('gpu_name')}"
        if count and name.startswith(ATTACHABLE_PREFIX)
        else name
    )


def _machine_facts(record: SheetRecord) -> MachineFacts:
    count, memory = record.parse_number("gpu_count") or 0, record.parse_number("gpu_memory")
    return MachineFacts(
        vcpus=round(record.parse_number("cpu") or 0),
        memory_gib=record.parse_number("memory") or 0.0,
        arch=ARCH.get(record.get_text("cpu_arch"), record.get_text("cpu_arch")),
        accelerator=translation.translate_accelerator_name(record.get_text("gpu_name"), memory)
        if count
        else "",
        accelerators=count,
        accelerator_memory_gib=memory or 0.0,
    )
