"""The billed and the declared cost: table and JSON."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from gpufleet.cost.analysis.actual import ActualComparison, PoolComparison
from gpufleet.cost.analysis.reports.table import align_columns, format_titled_list
from gpufleet.cost.formatting import format_usd
from gpufleet.cost.money import ZERO, round_to_cents

MAX_UNTAGGED_LINES = 20


def format_actual_table(comparison: ActualComparison) -> str:
    """Return the period, a row for each pool with the reasons of its difference, and what no pool has."""
    billed = comparison.billed
    if billed.start is None or billed.end is None:
        return "the files contain no rows"
    period = (
        f"{billed.start:%Y-%m-%d} to {billed.end:%Y-%m-%d}, {billed.period_hours} h, {billed.row_count} rows"
    )
    rows = [
        (
            each.pool,
            format_usd(each.declared_usd),
            format_usd(each.billed_usd),
            format_usd(each.difference_usd, show_sign=True),
        )
        for each in comparison.pools
    ]
    reasons = [f"{each.pool}: {_format_reasons(each)}" for each in comparison.pools if _is_different(each)]
    untagged = sorted(billed.untagged_usd.items(), key=lambda item: -abs(item[1]))
    lines = [f"{service}: {format_usd(usd)}" for service, usd in untagged[:MAX_UNTAGGED_LINES]]
    if rest := untagged[MAX_UNTAGGED_LINES:]:
        lines.append(f"{len(rest)} more services: {format_usd(sum((usd for _, usd in rest), ZERO))}")
    other = [f"{format_usd(billed.other_stacks_usd)}"] if billed.other_stacks_usd else []
    return "\n".join(
        [
            f"{billed.stack}: {period}",
            "",
            *align_columns(("POOL", "DECLARED", "BILLED", "DIFFERENCE"), rows),
            *format_titled_list("Reasons", reasons),
            *format_titled_list("Billed without the tag gpufleet-pool", lines),
            *format_titled_list("Billed for other stacks", other),
            *format_titled_list("Not compared: no rows of", comparison.missing_clouds),
        ]
    )


def _is_different(each: PoolComparison) -> bool:
    return round_to_cents(each.difference_usd) != 0


def _format_reasons(each: PoolComparison) -> str:
    parts = [
        f"{format_usd(usd, show_sign=True)} {reason}" for reason, usd in each.reasons if round_to_cents(usd)
    ]
    return ", ".join(parts)


def build_actual_document(comparison: ActualComparison) -> dict[str, Any]:
    """Return the comparison as JSON."""
    billed = comparison.billed
    return {
        "stack": billed.stack,
        "currency": "USD",
        "start": billed.start and billed.start.isoformat(),
        "end": billed.end and billed.end.isoformat(),
        "rows": billed.row_count,
        "pools": [
            {
                "pool": each.pool,
                "declared_usd": _cents(each.declared_usd),
                "billed_usd": _cents(each.billed_usd),
                "difference_usd": _cents(each.difference_usd),
                "reasons": [{"reason": reason, "usd": _cents(usd)} for reason, usd in each.reasons],
            }
            for each in comparison.pools
        ],
        "untagged": [
            {"service": service, "usd": _cents(usd)} for service, usd in sorted(billed.untagged_usd.items())
        ],
        "other_stacks_usd": _cents(billed.other_stacks_usd),
        "not_compared": list(comparison.missing_clouds),
    }


def _cents(amount: Decimal) -> float:
    return float(round_to_cents(amount))
