"""gpuhunt's catalogue: the columns of its ``storage.CATALOG_V2_FIELDS`` (0.1.34), one file a provider.

The published archive is a zip of such files; a dump as JSON has the same names, and the provider beside them.
A price there is the whole offer's: Google's n1 with cards attached is another offer than the n1 alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from gpufleet.catalog.prices.imports import names
from gpufleet.catalog.prices.imports.sheet import Origin, Record, Sheet
from gpufleet.catalog.prices.row import Facts, PriceRow
from gpufleet.errors import InputError

NEEDED = (
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
ATTACHABLE = "n1-"
CALENDAR = (
    "gcp-dws-calendar-mode"  # bought ahead for set days, at about half of on-demand, yet not marked as spot
)


def fits(sheet: Sheet) -> bool:
    """Tell whether a file has gpuhunt's columns."""
    return {"instance_name", "location", "price", "spot"} <= sheet.columns


def read(sheet: Sheet, origin: Origin) -> Iterator[PriceRow]:
    """Yield one price for each machine, region and purchase: the median of its zones."""
    sheet.need(*NEEDED)
    found: dict[tuple[str, ...], list[tuple[float, Record]]] = {}
    for record in sheet.records:
        if CALENDAR in record.text("flags").split():
            continue
        cloud = _cloud(record, sheet, origin)
        price = record.number("price")
        if price is None:
            raise InputError("is empty", where=record.where, key="price")
        region = names.region(record.needed("location"), cloud)
        purchase = "spot" if _spot(record) else "on_demand"
        found.setdefault((cloud, region, _item(record), purchase), []).append((price, record))
    for (cloud, region, item, purchase), zones in found.items():
        yield PriceRow(
            cloud,
            region,
            item,
            purchase,
            median(price for price, _ in zones),
            origin.as_of,
            origin.source,
            facts=_facts(zones[0][1]),
            where=zones[0][1].where,
        )


def _cloud(record: Record, sheet: Sheet, origin: Origin) -> str:
    cloud = origin.cloud or record.text("provider").lower() or sheet.stem.lower()
    if not cloud.isidentifier():
        raise InputError("does not say whose prices it holds", where=sheet.name, remedy="give --cloud")
    return cloud


def _spot(record: Record) -> bool:
    said = record.text("spot").lower()
    if said not in {"true", "false"}:
        raise InputError(f"{said!r} is neither True nor False", where=record.where, key="spot")
    return said == "true"


def _item(record: Record) -> str:
    """Name an offer; a machine with cards attached is not the machine alone."""
    name, count = record.needed("instance_name"), int(record.number("gpu_count") or 0)
    return f"{name}+{count}x{record.text('gpu_name')}" if count and name.startswith(ATTACHABLE) else name


def _facts(record: Record) -> Facts:
    count, memory = record.number("gpu_count") or 0, record.number("gpu_memory")
    return Facts(
        vcpus=round(record.number("cpu") or 0),
        memory_gib=record.number("memory") or 0.0,
        arch=ARCH.get(record.text("cpu_arch"), record.text("cpu_arch")),
        accelerator=names.accelerator(record.text("gpu_name"), memory) if count else "",
        accelerators=count,
        accelerator_memory_gib=memory or 0.0,
    )
