"""Prices, the state of the store and what an import brought, as text and as JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Any

from gpufleet.catalog.model import MachineOffer, Price
from gpufleet.catalog.offers import cheapest_commitments

if TYPE_CHECKING:
    from gpufleet.catalog.prices.checks import Finding
    from gpufleet.catalog.prices.status import Status
    from gpufleet.catalog.prices.store import Summary

FEW = 10  # findings shown of each code


def offers_as_dicts(found: Sequence[MachineOffer], count: int | None, today: date) -> list[dict[str, Any]]:
    """Return offers as plain values; spot that costs more than a commitment names it."""
    commitments = cheapest_commitments(found)
    return [_offer(offer, count, today, commitments) for offer in found]


def _offer(
    offer: MachineOffer, count: int | None, today: date, commitments: dict[tuple[str, ...], Price]
) -> dict[str, Any]:
    machine, price = offer.machine, offer.price
    each = offer.usd_per_accelerator_hour
    needed = math.ceil(count / offer.accelerators) if count and offer.accelerators else 1
    known = commitments.get((machine.cloud, offer.region, machine.name)) if offer.purchase == "spot" else None
    dearer = known if known and known.usd_per_hour < price.usd_per_hour else None
    return {
        "cloud": machine.cloud,
        "region": offer.region,
        "machine": machine.name,
        "accelerator": machine.accelerators[0].model if machine.accelerators else None,
        "accelerators": offer.accelerators,
        "purchase": offer.purchase,
        "usd_per_hour": price.usd_per_hour,
        "usd_per_accelerator_hour": None if each is None else round(each, 6),
        "machines": needed,
        "usd_per_hour_of_all": round(price.usd_per_hour * needed, 6),
        "as_of": price.as_of,
        "age_days": (today - price.as_of_date).days if price.as_of_date else None,
        "confidence": price.confidence,
        "source": price.source,
        "dearer_than": {"purchase": dearer.purchase, "usd_per_hour": dearer.usd_per_hour} if dearer else None,
    }


def parts_as_dicts(found: Iterable[tuple[str, str, str, Price]]) -> list[dict[str, Any]]:
    """Return the prices of parts as plain values."""
    return [
        {
            "cloud": cloud, "region": region, "part": part, "purchase": price.purchase, "unit": price.unit,
            "usd_per_hour": price.usd_per_hour, "as_of": price.as_of, "confidence": price.confidence,
            "source": price.source,
        }
        for cloud, region, part, price in found
    ]  # fmt: skip


def parts_table(found: Sequence[dict[str, Any]]) -> str:
    """Lay the prices of parts out in columns; what is billed by use has its price in the same column."""
    head = ("part", "unit", "cloud", "region", "purchase", "$/h of a unit", "as of", "source")
    rows = [
        (each["part"], each["unit"], each["cloud"], each["region"], each["purchase"], f"{each['usd_per_hour']:.6g}",
         each["as_of"] or "undated", _short(each["source"]))
        for each in found
    ]  # fmt: skip
    return "\n".join(grid(head, rows, right={5}))


def offers_table(found: Sequence[dict[str, Any]], count: int | None, *, more: bool) -> str:
    """Lay offers out in columns, cheapest first."""
    total = (f"$/h for {count}",) if count else ()
    head = (
        "machine",
        "accelerators",
        "cloud",
        "region",
        "purchase",
        "$/h",
        "$/h each",
        *total,
        "as of",
        "source",
    )
    rows = [_cells(offer, count) for offer in found]
    lines = grid(head, rows, right={5, 6, 7} if count else {5, 6})
    if any(offer["dearer_than"] for offer in found):
        lines.append("! spot costs more here than the commitment named behind it")
    if more:
        lines.append("more offers fit: raise --limit (0 shows all)")
    return "\n".join(lines)


def _cells(offer: dict[str, Any], count: int | None) -> tuple[str, ...]:
    dearer = offer["dearer_than"]
    mark = f"  ! {dearer['purchase']} {dearer['usd_per_hour']:.4g}" if dearer else ""
    cards = f"{offer['accelerators']:g} x {offer['accelerator']}" if offer["accelerator"] else "none"
    each = offer["usd_per_accelerator_hour"]
    machine = f"{offer['machines']} x {offer['machine']}" if count else offer["machine"]
    return (
        machine, cards, offer["cloud"], offer["region"], offer["purchase"], f"{offer['usd_per_hour']:.4f}",
        "" if each is None else f"{each:.4f}", *((f"{offer['usd_per_hour_of_all']:.4f}",) if count else ()),
        offer["as_of"] or "undated", _short(offer["source"]) + mark,
    )  # fmt: skip


def status_text(found: Status, today: date) -> str:
    """Say what is known, how old it is, and what was set apart."""
    age, ahead = (
        found.age_days(today),
        [each.newest for each in found.slices if each.newest > today.isoformat()],
    )
    told = "none has a day that has come" if age is None else f"the newest is {age} days old"
    lines = [
        f"store     {found.store or 'none: the embedded snapshot alone answers'}",
        f"prices    {found.embedded} embedded, {found.stored} stored; {told}",
        *([f"WARNING   some dated in the future, up to {max(ahead)}, outrank what is real"] if ahead else []),
        "",
        *grid(
            ("cloud", "purchase", "prices", "machines", "oldest", "middle", "newest", "undated"),
            [(each.cloud, each.purchase, str(each.prices), str(each.machines), each.oldest, each.middle, each.newest,
              str(each.undated)) for each in found.slices],
            right={2, 3, 7},
        ),
        "",
        "machine types with accelerators that have a price in some region:",
        *grid(
            ("cloud", "types", "on-demand", "spot", "commitment"),
            [(each.cloud, str(each.types), str(each.on_demand), str(each.spot), str(each.commitment))
             for each in found.coverage],
            right={1, 2, 3, 4},
        ),
        "",
        "sources:",
        *(f"  {count:6}  {source}" for source, count in found.sources),
    ]  # fmt: skip
    if found.apart:
        lines += [
            "",
            "set apart as suspicious, never priced by:",
            *(f"  {n:6}  {code}" for code, n in found.apart),
        ]
    lines += [
        f"\nunfinished: {each.source}, begun {each.started_at}; run it again" for each in found.unfinished
    ]
    return "\n".join(lines)


def status_json(found: Status, today: date) -> str:
    """Return the state as JSON."""
    return dump(asdict(found) | {"age_days": found.age_days(today)})


def summary_text(summary: Summary, name: str) -> str:
    """Say what an import took and what it set apart, by check."""
    if summary.repeated:
        head = f"{name} was imported before, on {summary.run.finished_at}: nothing changed"
        return f"{head} ({summary.taken} taken, {summary.apart} set apart)"
    lines = [
        f"{name}: {summary.taken} prices taken ({summary.unchanged} as known), {summary.apart} set apart"
    ]
    if summary.apart:
        codes = " ".join(f"--accept {code}" for code in sorted({each.code for each in summary.findings}))
        lines[0] += f"; to take those all the same: {codes}"
    return "\n".join([*lines, *findings_lines(summary.findings)])


def summary_json(summary: Summary, name: str) -> str:
    """Return what an import took as JSON."""
    return dump(
        {
            "file": name,
            "taken": summary.taken,
            "unchanged": summary.unchanged,
            "set_apart": summary.apart,
            "repeated": summary.repeated,
            "findings": [finding_dict(each) for each in summary.findings],
        }
    )


def findings_lines(findings: Iterable[Finding]) -> list[str]:
    """Return findings by check, a few of each."""
    from gpufleet.catalog.prices.checks import CODES

    by_code: dict[str, list[Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, []).append(finding)
    lines: list[str] = []
    for code, found in sorted(by_code.items()):
        lines.append(f"  {code} ({CODES[code]}): {len(found)}")
        lines += [f"    {' '.join(each.row.key)}: {each.reason}" for each in found[:FEW]]
        lines += [f"    and {len(found) - FEW} more"] if len(found) > FEW else []
    return lines


def findings_json(findings: Iterable[Finding]) -> str:
    """Return findings as JSON."""
    found = list(findings)
    counts = Counter(each.code for each in found)
    return dump({"counts": dict(sorted(counts.items())), "findings": [finding_dict(each) for each in found]})


def finding_dict(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain values."""
    row = finding.row
    return {
        "code": finding.code, "reason": finding.reason, "cloud": row.cloud, "region": row.region, "item": row.item,
        "purchase": row.purchase, "usd_per_hour": row.usd_per_hour, "as_of": row.as_of or None, "source": row.source,
        "where": row.where,
    }  # fmt: skip


def dump(value: Any) -> str:
    """Return JSON as people read it."""
    return json.dumps(value, indent=2)


def grid(head: Sequence[str], rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Return rows as lines of equal columns."""
    numbers = set(right)
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    return [
        "  ".join(
            cell.rjust(widths[at]) if at in numbers else cell.ljust(widths[at]) for at, cell in enumerate(row)
        ).rstrip()
        for row in (head, *rows)
    ]


def _short(source: str) -> str:
    return source.partition(";")[0][:40]
