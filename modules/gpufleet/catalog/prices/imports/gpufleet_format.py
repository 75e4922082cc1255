"""gpufleet's own columns: cloud, region, machine (or part, or instance_type), purchase, usd_per_hour, as_of, source.

Instead of ``usd_per_hour``: ``usd`` and ``per``, which is hour, month, year or use.

Optional: ``unit, confidence, upfront, upfront_usd, offered`` and the machine's facts
(``vcpus, memory_gib, arch, gpu_model, gpu_count, gpu_memory_gib``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from gpufleet.catalog import data_file
from gpufleet.catalog.entry import HOURS_PER_MONTH, Confidence
from gpufleet.catalog.prices.imports import translation
from gpufleet.catalog.prices.imports.sheet import PriceOrigin, PriceSheet, SheetRecord
from gpufleet.catalog.prices.row import Kind, MachineFacts, PriceRow, Upfront, split_licensed_machine
from gpufleet.errors import InputError

ITEM_COLUMNS = ("machine", "part", "instance_type")
HOURS_PER_UNIT = {"hour": 1, "use": 1, "month": HOURS_PER_MONTH, "year": 8760}
CONFIDENCES = ("high", "medium", "low")
MACHINE_UNITS = ("machine", "hour", "")


def can_read_sheet(sheet: PriceSheet) -> bool:
    """Return whether a sheet has these columns."""
    return {"region", "purchase"} <= sheet.columns and bool(sheet.columns & set(ITEM_COLUMNS))


def read_price_rows(sheet: PriceSheet, origin: PriceOrigin) -> Iterator[PriceRow]:
    """Yield the prices of a sheet with these columns."""
    sheet.require_columns("region", "purchase", *(() if origin.cloud else ("cloud",)))
    sheet.require_columns(*(("usd", "per") if "usd" in sheet.columns else ("usd_per_hour",)))
    for record in sheet.records:
        yield _build_row(record, origin)


def _build_row(record: SheetRecord, origin: PriceOrigin) -> PriceRow:
    column = next((name for name in ITEM_COLUMNS if record.get_text(name)), "machine")
    item = record.require_text(column)
    kind: Kind = "part" if column == "part" or item.startswith("accelerator:") else "machine"
    return PriceRow(
        cloud=record.get_text("cloud") or origin.cloud,
        region=record.require_text("region"),
        item=item,
        purchase=record.require_text("purchase"),
        usd_per_hour=_usd_per_hour(record),
        as_of=record.get_text("as_of") or origin.as_of,
        source=_choose_source(record, origin),
        kind=kind,
        unit=_price_unit(record, kind, item),
        confidence=_parse_confidence(record),
        upfront=cast("Upfront", record.get_text("upfront") or "none"),
        upfront_usd=record.parse_number("upfront_usd") or 0.0,
        facts=_machine_facts(record, record.get_text("cloud") or origin.cloud, item)
        if kind == "machine"
        else None,
        offered=_parse_offered(record),
        where=record.where,
    )


def _usd_per_hour(record: SheetRecord) -> float:
    if "usd" not in record.values:
        amount, per = record.parse_number("usd_per_hour"), "hour"
        if amount is None:
            raise InputError("is empty", where=record.where, key="usd_per_hour")
        return amount
    amount, per = record.parse_number("usd"), record.require_text("per")
    if amount is None:
        raise InputError("is empty", where=record.where, key="usd")
    if per not in HOURS_PER_UNIT:
        raise InputError(
            f"unknown {per!r}",
            where=record.where,
            key="per",
            remedy=f"use one of {', '.join(HOURS_PER_UNIT)}",
        )
    return amount / HOURS_PER_UNIT[per]


def _price_unit(record: SheetRecord, kind: Kind, item: str) -> str:
    unit = record.get_text("unit")
    if kind == "machine":
        if unit.lower() not in MACHINE_UNITS:
            raise InputError(
                f"unknown {unit!r}",
                where=record.where,
                key="unit",
                remedy="a machine's price is per machine and hour",
            )
        return "machine"
    return unit or ("accelerator" if item.startswith("accelerator:") else record.require_text("unit"))


def _parse_confidence(record: SheetRecord) -> Confidence | None:
    text = record.get_text("confidence")
    if text and text not in CONFIDENCES:
        raise InputError(
            f"unknown {text!r}",
            where=record.where,
            key="confidence",
            remedy=f"use one of {', '.join(CONFIDENCES)}",
        )
    return cast("Confidence | None", text or None)


def _parse_offered(record: SheetRecord) -> bool | None:
    text = record.get_text("offered").lower()
    if text not in {"", "true", "false"}:
        raise InputError(f"unknown {text!r}", where=record.where, key="offered", remedy="true or false")
    return None if not text else text == "true"


def _choose_source(record: SheetRecord, origin: PriceOrigin) -> str:
    """Return the source of a row, else that of the file; only a caller's source makes the column optional."""
    if "source" in record.values and not origin.is_source_given:
        return record.require_text("source")
    return record.get_text("source") or origin.source


def _machine_facts(record: SheetRecord, cloud: str, item: str) -> MachineFacts | None:
    """Return the machine's facts, None if the row states neither accelerators nor a size.

    vCPUs and memory alone describe a machine without accelerators, unless the catalogue knows some.
    """
    model, count, memory = (
        record.get_text("gpu_model"),
        record.parse_number("gpu_count"),
        record.parse_number("gpu_memory_gib"),
    )
    vcpus, memory_gib = (
        round(record.parse_number("vcpus") or 0),
        record.parse_number("memory_gib") or 0.0,
    )
    if not model and count is None:
        catalog_machine = data_file.load_machines().get((cloud, split_licensed_machine(item)[0]))
        if not vcpus or not memory_gib or (catalog_machine and catalog_machine.accelerators):
            return None
    has_no_accelerator = model in {"", "none"}
    return MachineFacts(
        vcpus=vcpus,
        memory_gib=memory_gib,
        arch=record.get_text("arch") or "x86_64",
        accelerator="" if has_no_accelerator else translation.translate_accelerator_name(model, memory),
        accelerators=0 if has_no_accelerator else (count or 0),
        accelerator_memory_gib=memory or 0.0,
    )
