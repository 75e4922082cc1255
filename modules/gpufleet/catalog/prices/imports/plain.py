"""Our own columns: cloud, region, machine (or part, or instance_type), purchase, usd_per_hour, as_of, source.

Instead of ``usd_per_hour``: ``usd`` and ``per``, which is hour, month, year or use.

Beside them, where known: ``unit, confidence, upfront, upfront_usd, offered`` and what the machine is
(``vcpus, memory_gib, arch, gpu_model, gpu_count, gpu_memory_gib``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from gpufleet.catalog.model import HOURS_PER_MONTH, Confidence
from gpufleet.catalog.prices.imports import names
from gpufleet.catalog.prices.imports.sheet import Origin, Record, Sheet
from gpufleet.catalog.prices.row import Facts, Kind, PriceRow, Upfront
from gpufleet.errors import InputError

ITEMS = ("machine", "part", "instance_type")
HOURS = {"hour": 1, "use": 1, "month": HOURS_PER_MONTH, "year": 8760}
CONFIDENCES = ("high", "medium", "low")
UNITS_OF_MACHINES = ("machine", "hour", "")


def fits(sheet: Sheet) -> bool:
    """Tell whether a file has our columns."""
    return {"region", "purchase"} <= sheet.columns and bool(sheet.columns & set(ITEMS))


def read(sheet: Sheet, origin: Origin) -> Iterator[PriceRow]:
    """Yield the prices of a file with our columns."""
    sheet.need("region", "purchase", *(() if origin.cloud else ("cloud",)))
    sheet.need(*(("usd", "per") if "usd" in sheet.columns else ("usd_per_hour",)))
    for record in sheet.records:
        yield _row(record, origin)


def _row(record: Record, origin: Origin) -> PriceRow:
    column = next((name for name in ITEMS if record.text(name)), "machine")
    item = record.needed(column)
    kind: Kind = "part" if column == "part" or item.startswith("accelerator:") else "machine"
    return PriceRow(
        cloud=record.text("cloud") or origin.cloud,
        region=record.needed("region"),
        item=item,
        purchase=record.needed("purchase"),
        usd_per_hour=_usd(record),
        as_of=record.text("as_of") or origin.as_of,
        source=_source(record, origin),
        kind=kind,
        unit=_unit(record, kind, item),
        confidence=_confidence(record),
        upfront=cast("Upfront", record.text("upfront") or "none"),
        upfront_usd=record.number("upfront_usd") or 0.0,
        facts=_facts(record) if kind == "machine" else None,
        offered=_offered(record),
        where=record.where,
    )


def _usd(record: Record) -> float:
    if "usd" not in record.values:
        amount, per = record.number("usd_per_hour"), "hour"
        if amount is None:
            raise InputError("is empty", where=record.where, key="usd_per_hour")
        return amount
    amount, per = record.number("usd"), record.needed("per")
    if amount is None:
        raise InputError("is empty", where=record.where, key="usd")
    if per not in HOURS:
        raise InputError(
            f"unknown {per!r}", where=record.where, key="per", remedy=f"one of {', '.join(HOURS)}"
        )
    return amount / HOURS[per]


def _unit(record: Record, kind: Kind, item: str) -> str:
    unit = record.text("unit")
    if kind == "machine":
        if unit.lower() not in UNITS_OF_MACHINES:
            raise InputError(
                f"unknown {unit!r}",
                where=record.where,
                key="unit",
                remedy="a machine's price is per machine and hour",
            )
        return "machine"
    return unit or ("accelerator" if item.startswith("accelerator:") else record.needed("unit"))


def _confidence(record: Record) -> Confidence | None:
    said = record.text("confidence")
    if said and said not in CONFIDENCES:
        raise InputError(
            f"unknown {said!r}",
            where=record.where,
            key="confidence",
            remedy=f"one of {', '.join(CONFIDENCES)}",
        )
    return cast("Confidence | None", said or None)


def _offered(record: Record) -> bool | None:
    said = record.text("offered").lower()
    if said not in {"", "true", "false"}:
        raise InputError(f"unknown {said!r}", where=record.where, key="offered", remedy="true or false")
    return None if not said else said == "true"


def _source(record: Record, origin: Origin) -> str:
    """Return who says so: a row may leave that out only where the whole file or its caller says it."""
    if "source" in record.values and not origin.told:
        return record.needed("source")
    return record.text("source") or origin.source


def _facts(record: Record) -> Facts | None:
    """Return what the machine is, None where the row leaves open what accelerators it has."""
    model, count, memory = (
        record.text("gpu_model"),
        record.number("gpu_count"),
        record.number("gpu_memory_gib"),
    )
    if not model and count is None:
        return None
    bare = model in {"", "none"}
    return Facts(
        vcpus=round(record.number("vcpus") or 0),
        memory_gib=record.number("memory_gib") or 0.0,
        arch=record.text("arch") or "x86_64",
        accelerator="" if bare else names.accelerator(model, memory),
        accelerators=0 if bare else (count or 0),
        accelerator_memory_gib=memory or 0.0,
    )
