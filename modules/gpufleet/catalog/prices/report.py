"""Prices, the state of the store and import results, as text and as JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpufleet.catalog import data_file
from gpufleet.catalog.entry import HOURS_PER_MONTH, MachineOffer, Price
from gpufleet.catalog.offer import find_cheapest_commitments
from gpufleet.catalog.price_tier import match_price_tiers, round_unit_price
from gpufleet.text_table import align_columns

if TYPE_CHECKING:
    from gpufleet.catalog.prices.check import PriceFinding
    from gpufleet.catalog.prices.status import PriceStoreStatus
    from gpufleet.catalog.prices.store import ImportRunSummary

MAX_SHOWN_FINDINGS = 10  # findings shown of each code


def offers_as_dicts(offers: Sequence[MachineOffer], count: int | None, today: date) -> list[dict[str, Any]]:
    """Return offers as plain values; a spot offer names a cheaper commitment."""
    commitments = find_cheapest_commitments(offers)
    return [_offer_as_dict(offer, count, today, commitments) for offer in offers]


def _offer_as_dict(
    offer: MachineOffer, count: int | None, today: date, commitments: dict[tuple[str, ...], Price]
) -> dict[str, Any]:
    machine, price = offer.machine, offer.price
    usd_per_accelerator = offer.usd_per_accelerator_hour
    machine_count = math.ceil(count / offer.accelerator_count) if count and offer.accelerator_count else 1
    commitment = (
        commitments.get((machine.cloud, offer.region, machine.name)) if offer.purchase == "spot" else None
    )
    cheaper_commitment = commitment if commitment and commitment.usd_per_hour < price.usd_per_hour else None
    return {
        "cloud": machine.cloud,
        "region": offer.region,
        "machine": machine.name,
        "accelerator": machine.accelerators[0].model if machine.accelerators else None,
        "accelerators": offer.accelerator_count if machine.vcpus else None,  # no price list has its size
        "purchase": offer.purchase,
        "usd_per_hour": price.usd_per_hour,
        "usd_per_accelerator_hour": None if usd_per_accelerator is None else round(usd_per_accelerator, 6),
        "machines": machine_count,
        "usd_per_hour_of_all": round(price.usd_per_hour * machine_count, 6),
        "as_of": price.as_of,
        "age_days": (today - price.earliest_price_date).days if price.earliest_price_date else None,
        "confidence": price.confidence,
        "source": price.source,
        "dearer_than": {
            "purchase": cheaper_commitment.purchase,
            "usd_per_hour": cheaper_commitment.usd_per_hour,
        }
        if cheaper_commitment
        else None,
    }


def part_offers_as_dicts(offers: Iterable[tuple[str, str, str, Price]]) -> list[dict[str, Any]]:
    """Return the prices of parts as plain values; ``usd`` is of a unit and the period ``per``: hour, month, or use."""
    return [_describe_part_offer(*offer) for offer in offers]


def _describe_part_offer(cloud: str, region: str, part: str, price: Price) -> dict[str, Any]:
    period = data_file.find_part_period(cloud, region, part)
    hours = HOURS_PER_MONTH if period == "month" else 1
    usd = round_unit_price(Decimal(str(price.usd_per_hour)) * hours)
    tiers = match_price_tiers(cloud, region, part, usd) if price.purchase == "on_demand" else ()
    return {
        "cloud": cloud, "region": region, "part": part, "purchase": price.purchase, "unit": price.unit,
        "usd_per_hour": price.usd_per_hour, "usd": float(usd), "per": period, "as_of": price.as_of,
        "confidence": price.confidence, "source": price.source,
        "tiers": [
            {"from_amount": int(tier.from_amount), "usd": float(tier.usd), "as_of": tier.as_of, "source": tier.source}
            for tier in tiers
        ],
    }  # fmt: skip


def format_part_offers_table(offers: Sequence[dict[str, Any]]) -> str:
    """Return the prices of parts as a table: a row for each price, and for each volume tier of what bills by use."""
    head = ("part", "unit", "cloud", "region", "purchase", "from", "USD", "per", "as of", "source")
    rows = [
        (offer["part"], offer["unit"], offer["cloud"], offer["region"], offer["purchase"],
         f"{tier['from_amount']:,}", f"{tier['usd']:.6g}", offer["per"], tier["as_of"] or "undated",
         _shorten_source(tier["source"]))
        for offer in offers
        for tier in ({**offer, "from_amount": 0}, *offer["tiers"])
    ]  # fmt: skip
    return "\n".join(align_columns(head, rows, {"from", "USD"}))


def format_offers_table(offers: Sequence[dict[str, Any]], count: int | None, *, more: bool) -> str:
    """Return offers as a table, cheapest first."""
    total_column = (f"$/h for {count}",) if count else ()
    head = (
        "machine",
        "accelerators",
        "cloud",
        "region",
        "purchase",
        "$/h",
        "$/h each",
        *total_column,
        "as of",
        "source",
    )
    rows = [_format_cells(offer, count) for offer in offers]
    lines = align_columns(head, rows, {"$/h", "$/h each", *total_column})
    if any(offer["dearer_than"] for offer in offers):
        lines.append("! spot costs more than the commitment at the end of the line")
    if more:
        lines.append("more offers match: raise --limit (0 shows all)")
    return "\n".join(lines)


def _format_cells(offer: dict[str, Any], count: int | None) -> tuple[str, ...]:
    cheaper_commitment = offer["dearer_than"]
    mark = (
        f"  ! {cheaper_commitment['purchase']} {cheaper_commitment['usd_per_hour']:.4g}"
        if cheaper_commitment
        else ""
    )
    accelerators = "unknown" if offer["accelerators"] is None else "none"
    if offer["accelerator"]:
        accelerators = f"{offer['accelerators']:g} x {offer['accelerator']}"
    usd_per_accelerator = offer["usd_per_accelerator_hour"]
    machine = f"{offer['machines']} x {offer['machine']}" if count else offer["machine"]
    return (
        machine, accelerators, offer["cloud"], offer["region"], offer["purchase"], f"{offer['usd_per_hour']:.4f}",
        "" if usd_per_accelerator is None else f"{usd_per_accelerator:.4f}",
        *((f"{offer['usd_per_hour_of_all']:.4f}",) if count else ()),
        offer["as_of"] or "undated", _shorten_source(offer["source"]) + mark,
    )  # fmt: skip


def format_store_status(status: PriceStoreStatus, today: date) -> str:
    """Return the numbers, age and sources of prices, and the rows that were set apart."""
    age_days, future_days = (
        status.newest_price_age_days(today),
        [purchase.newest for purchase in status.slices if purchase.newest > today.isoformat()],
    )
    newest_age = "all are dated in the future" if age_days is None else f"the newest is {age_days} days old"
    lines = [
        f"store     {status.store or 'none: only the embedded prices are used'}",
        f"prices    {status.embedded} embedded, {status.stored} stored; {newest_age}",
        *(future_days and [f"WARNING   prices dated in the future (up to {max(future_days)}) outrank real ones"]),
        "",
        *align_columns(
            ("cloud", "purchase", "prices", "machines", "oldest", "middle", "newest", "undated"),
            [(row.cloud, row.purchase, str(row.prices), str(row.machines), row.oldest, row.middle, row.newest,
              str(row.undated)) for row in status.slices],
            {"prices", "machines", "undated"},
        ),
        "",
        "also embedded: ordinary machines, licensed systems, more regions, and nodes of services:",
        *align_columns(
            ("cloud", "kind", "purchase", "prices", "types", "oldest", "newest"),
            [(row.cloud, row.kind, row.purchase, str(row.prices), str(row.items), row.oldest, row.newest)
             for row in status.snapshot],
            {"prices", "types"},
        ),
        "",
        "machine types with accelerators that have a price in some region:",
        *align_columns(
            ("cloud", "types", "on-demand", "spot", "commitment"),
            [(row.cloud, str(row.types), str(row.on_demand), str(row.spot), str(row.commitment))
             for row in status.coverage],
            {"types", "on-demand", "spot", "commitment"},
        ),
        "",
        "sources:",
        *(f"  {count:6}  {source}" for source, count in status.sources),
    ]  # fmt: skip
    if status.set_apart:
        lines += [
            "",
            "set apart as suspicious, never used as prices:",
            *(f"  {n:6}  {code}" for code, n in status.set_apart),
        ]
    lines += [
        f"\nunfinished: {run.source}, started {run.started_at}; run it again" for run in status.unfinished
    ]
    return "\n".join(lines)


def format_store_status_json(status: PriceStoreStatus, today: date) -> str:
    """Return the status as JSON."""
    return format_indented_json(asdict(status) | {"age_days": status.newest_price_age_days(today)})


def format_import_summary(summary: ImportRunSummary, name: str) -> str:
    """Return the numbers of an import and its findings by check."""
    if summary.repeated:
        head = f"{name} was imported on {summary.run.finished_at}: nothing changed"
        return f"{head} ({summary.imported} imported, {summary.set_apart} set apart)"
    lines = [
        f"{name}: {summary.imported} prices imported ({summary.unchanged} unchanged), {summary.set_apart} set apart"
    ]
    if summary.set_apart:
        codes = " ".join(
            f"--accept {code}" for code in sorted({finding.code for finding in summary.findings})
        )
        lines[0] += f"; to import them anyway: {codes}"
    return "\n".join([*lines, *format_price_findings(summary.findings)])


def format_import_summary_json(summary: ImportRunSummary, name: str) -> str:
    """Return the numbers of an import and its findings as JSON."""
    return format_indented_json(
        {
            "file": name,
            "imported": summary.imported,
            "unchanged": summary.unchanged,
            "set_apart": summary.set_apart,
            "repeated": summary.repeated,
            "findings": [price_finding_as_dict(finding) for finding in summary.findings],
        }
    )


def format_price_findings(findings: Iterable[PriceFinding]) -> list[str]:
    """Return findings by check, at most MAX_SHOWN_FINDINGS of each."""
    from gpufleet.catalog.prices.check import CODES

    by_code: dict[str, list[PriceFinding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, []).append(finding)
    lines: list[str] = []
    for code, same_code in sorted(by_code.items()):
        lines.append(f"  {code} ({CODES[code]}): {len(same_code)}")
        lines += [
            f"    {' '.join(finding.row.price_key)}: {finding.reason}"
            for finding in same_code[:MAX_SHOWN_FINDINGS]
        ]
        lines += (
            [f"    and {len(same_code) - MAX_SHOWN_FINDINGS} more"]
            if len(same_code) > MAX_SHOWN_FINDINGS
            else []
        )
    return lines


def format_price_findings_json(findings: Iterable[PriceFinding]) -> str:
    """Return findings as JSON."""
    listed = list(findings)
    counts = Counter(finding.code for finding in listed)
    return format_indented_json(
        {
            "counts": dict(sorted(counts.items())),
            "findings": [price_finding_as_dict(finding) for finding in listed],
        }
    )


def price_finding_as_dict(finding: PriceFinding) -> dict[str, Any]:
    """Return a finding as plain values."""
    row = finding.row
    return {
        "code": finding.code, "reason": finding.reason, "cloud": row.cloud, "region": row.region, "item": row.item,
        "purchase": row.purchase, "usd_per_hour": row.usd_per_hour, "as_of": row.as_of or None, "source": row.source,
        "where": row.where,
    }  # fmt: skip


def format_indented_json(value: Any) -> str:
    """Return indented JSON."""
    return json.dumps(value, indent=2)


def _shorten_source(source: str) -> str:
    return source.partition(";")[0][:40]
