"""Purchase options for a terminal: break-even of commitments, and a stack by purchase kind."""

from __future__ import annotations

from gpufleet.cost.analysis.reports.table import align_columns
from gpufleet.cost.analysis.what_if import KINDS, WhatIfRow
from gpufleet.cost.formatting import format_hourly_rate, format_number, format_usd
from gpufleet.cost.money import to_decimal
from gpufleet.cost.pricing.commitments import CommitmentBreakEven


def format_break_even_table(comparisons: tuple[CommitmentBreakEven, ...]) -> str:
    """Return the break-even comparison with the date and source of each price."""
    rows = [
        (
            comparison.commitment.replace("reserved_", ""),
            comparison.against.replace("_", " "),
            format_hourly_rate(to_decimal(comparison.committed.usd_per_hour))
            if comparison.committed
            else "-",
            format_hourly_rate(to_decimal(comparison.hourly.usd_per_hour)) if comparison.hourly else "-",
            comparison.break_even_verdict,
        )
        for comparison in comparisons
    ]
    first = comparisons[0]
    prices = {
        price for comparison in comparisons for price in (comparison.committed, comparison.hourly) if price
    }
    price_lines = sorted(
        f"{price.purchase}: as of {price.as_of or 'unknown'}, {price.source}" for price in prices
    )
    header = ("PURCHASE", "AGAINST", "COMMITTED", "HOURLY", "CHEAPER")
    head = f"{first.machine} in {first.region}: a commitment, which bills all 730 hours of a month, is cheaper..."
    return "\n".join(
        [head, "", *align_columns(header, rows), "", "Prices:", *(f"  {line}" for line in price_lines)]
    )


def format_what_if_table(rows: tuple[WhatIfRow, ...]) -> str:
    """Return the comparison: USD a month by purchase kind."""
    header = (
        "POOL",
        "WHAT",
        "REGION",
        "PURCHASE",
        "COUNT",
        "HOURS",
        "NOW",
        *(_column_title(kind) for kind in KINDS),
    )
    lines = [
        (
            row.pool,
            row.machine,
            row.region,
            row.purchase.replace("_", " "),
            format_number(row.count),
            format_number(row.hours),
            format_usd(row.usd_per_month),
            *(
                "-" if option.usd_per_month is None else format_usd(option.usd_per_month)
                for option in row.options
            ),
        )
        for row in rows
    ]
    footer = [
        "",
        "USD a month at list price. On demand and spot bill the hours shown, commitments 730.",
        "- : the catalogue has no usable price. Commitments that you have already are not included.",
    ]
    return (
        "\n".join([*align_columns(header, lines), *footer])
        if lines
        else "nothing here has another purchase option"
    )


def _column_title(kind: str) -> str:
    return kind.replace("reserved_", "").replace("_", " ").upper()
