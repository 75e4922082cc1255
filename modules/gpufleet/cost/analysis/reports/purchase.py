"""Other ways to buy, for a terminal: break-even of commitments, and a stack under each kind of purchase."""

from __future__ import annotations

from gpufleet.cost.analysis.reports.table import grid
from gpufleet.cost.analysis.what_if import KINDS, WhatIf
from gpufleet.cost.formatting import number, rate, usd
from gpufleet.cost.money import to_decimal
from gpufleet.cost.pricing.commitments import BreakEven


def break_even_table(found: tuple[BreakEven, ...]) -> str:
    """Write the comparison for a terminal, with the date and source of each price."""
    rows = [
        (
            each.commitment.replace("reserved_", ""),
            each.against.replace("_", " "),
            rate(to_decimal(each.committed.usd_per_hour)) if each.committed else "-",
            rate(to_decimal(each.hourly.usd_per_hour)) if each.hourly else "-",
            each.verdict,
        )
        for each in found
    ]
    first = found[0]
    used = {price for each in found for price in (each.committed, each.hourly) if price}
    prices = sorted(f"{price.purchase}: as of {price.as_of or 'unknown'}, {price.source}" for price in used)
    header = ("PURCHASE", "AGAINST", "COMMITTED", "HOURLY", "CHEAPER")
    head = f"{first.machine} in {first.region}: a commitment, which bills all 730 hours of a month, is cheaper..."
    return "\n".join([head, "", *grid(header, rows), "", "Prices:", *(f"  {line}" for line in prices)])


def what_if_table(rows: tuple[WhatIf, ...]) -> str:
    """Write the comparison for a terminal: USD a month under each kind of purchase."""
    header = ("POOL", "WHAT", "REGION", "PURCHASE", "COUNT", "HOURS", "NOW", *(_head(kind) for kind in KINDS))
    lines = [
        (
            row.pool,
            row.machine,
            row.region,
            row.purchase.replace("_", " "),
            number(row.count),
            number(row.hours),
            usd(row.usd_per_month),
            *("-" if option.usd_per_month is None else usd(option.usd_per_month) for option in row.options),
        )
        for row in rows
    ]
    tail = [
        "",
        "USD a month at list price. On demand and spot bill the hours shown, commitments 730.",
        "- : the catalogue has no usable price. Commitments that you hold already are not counted here.",
    ]
    return "\n".join([*grid(header, lines), *tail]) if lines else "nothing here can be bought otherwise"


def _head(kind: str) -> str:
    return kind.replace("reserved_", "").replace("_", " ").upper()
