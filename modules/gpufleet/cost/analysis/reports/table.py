"""Reports for a terminal: plain text without colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from gpufleet import text_table
from gpufleet.cost.analysis.diff import CostDiff, CostDiffLine
from gpufleet.cost.analysis.estimate import CostEstimate
from gpufleet.cost.analysis.pool import PoolCost, group_charges_by_pool
from gpufleet.cost.analysis.reports import summary
from gpufleet.cost.formatting import (
    format_amount,
    format_hourly_rate,
    format_number,
    format_quantity_range,
    format_usd,
    format_usd_range,
)
from gpufleet.cost.pricing.bill import GapClasses

Row = Sequence[str]
CENT = Decimal("0.01")
LEFT = {
    "PROJECT",
    "STACK",
    "POOL",
    "NODE",
    "STATE",
    "WHAT",
    "REGION",
    "PURCHASE",
    "OP",
    "NAME",
    "AGAINST",
    "CHEAPER",
    "MACHINE",
    "ACCELERATORS",
}


def render_estimate_table(estimate: CostEstimate) -> str:
    """Return total and budget, then cost by pool, unpriced resources, notes and prices."""
    month = estimate.bill.usd_per_month
    rows = [_pool_row(pool) for pool in group_charges_by_pool(estimate.bill)]
    header = ("POOL", "WHAT", "REGION", "PURCHASE", "COUNT", "HOURS", "USD/HOUR", "USD/MONTH", "RANGE")
    hourly = format_usd(estimate.bill.usd_per_hour.expected)
    total = f"{format_usd(month.expected)} a month, {hourly} an hour while all of it runs"
    lines = [
        f"{estimate.stack}: {total}{summary.format_unpriced_count(estimate.bill)}",
        f"  {estimate.budget_verdict}",
    ]
    if not month.is_exact:
        lines.append(f"  between {format_usd_range(month, ' and ')} a month")
    return "\n".join(
        [
            *lines,
            "",
            *align_columns(header, rows),
            *_list_gaps(estimate.bill.gaps),
            *format_titled_list("Skipped", summary.format_skipped_reasons(estimate.bill.skipped_resources)),
            *format_titled_list("Notes", estimate.notes),
            *format_titled_list("Prices", summary.format_price_sources(estimate.bill.charges), is_cut=True),
        ]
    )


def _list_gaps(gaps: GapClasses) -> list[str]:
    """Return what has no price, then what bills by use without an amount of use."""
    return [
        *format_titled_list(summary.WITHOUT_PRICE, summary.format_unpriced_reasons(gaps.without_price)),
        *format_titled_list(summary.BY_USE, summary.format_unpriced_reasons(gaps.by_use)),
    ]


def render_diff_table(diff: CostDiff) -> str:
    """Return headline and changed lines, then unpriced resources, warnings, policy and prices."""
    changed = [line for line in diff.lines if line.is_changed]
    unchanged_count = len(diff.lines) - len(changed)
    header = ("OP", "NAME", "WHAT", "PURCHASE", "BEFORE", "AFTER", "CHANGE")
    lines = [summary.format_change_headline(diff), *summary.format_headline_notes(diff)]
    lines += ["", *align_columns(header, [_line_row(line) for line in changed])] if changed else []
    lines += ["", f"{summary.pluralize(unchanged_count, 'line')} unchanged"] if unchanged_count else []
    lines += format_titled_list("Unknown effect", summary.format_unknown_changes(diff))
    lines += _list_gaps(diff.gaps)
    lines += format_titled_list("Skipped", summary.format_skipped_reasons(diff.after.skipped_resources))
    lines += format_titled_list("Warnings", summary.format_diff_warnings(diff))
    lines += format_titled_list("Notes", diff.notes)
    lines += format_titled_list(
        "Policy violated", [f"{each.rule}: {each.message}" for each in diff.policy.violations]
    )
    lines += format_titled_list("Not decided", summary.format_undecided_limits(diff.policy))
    lines += format_titled_list("Policy met", summary.format_met_limits(diff.policy))
    return "\n".join(
        [
            *lines,
            *format_titled_list(
                "Prices",
                summary.format_price_sources(line.shown_charge for line in changed),
                is_cut=True,
            ),
        ]
    )


def align_columns(header: Row, rows: Iterable[Row]) -> list[str]:
    """Align cells in columns: text to the left, numbers to the right."""
    return text_table.align_columns(header, rows, set(header) - LEFT)


def format_titled_list(title: str, lines: Iterable[str], *, is_cut: bool = False) -> list[str]:
    """Return a titled list, nothing if it is empty; ``is_cut`` as in ``text_table.format_list``."""
    indented = text_table.format_list(lines, is_cut=is_cut)
    return ["", f"{title}:", *indented] if indented else []


def _pool_row(pool: PoolCost) -> Row:
    return (
        pool.name,
        pool.machine,
        pool.region,
        pool.purchase.replace("_", " "),
        _format_count(pool),
        "-" if pool.unit else format_number(pool.hours),
        _format_hourly(pool.usd_per_hour.expected),
        format_usd(pool.usd_per_month.expected),
        "" if pool.usd_per_month.is_exact else format_usd_range(pool.usd_per_month),
    )


def _format_count(pool: PoolCost) -> str:
    if pool.unit:
        return f"{format_amount(pool.count.expected)} {pool.unit}"
    if pool.owned_nodes:
        return summary.pluralize(pool.owned_nodes, "node")
    return f"{format_quantity_range(pool.count)}{' GiB' if pool.is_by_size else ''}"


def _format_hourly(amount: Decimal) -> str:
    """Return cents, and more digits of a rate that they would show as nothing: $0.0025."""
    return format_hourly_rate(amount) if 0 < amount < CENT else format_usd(amount)


def _line_row(line: CostDiffLine) -> Row:
    return (
        line.op,
        f"{line.shown_charge.name} {line.shown_charge.component}",
        summary.format_quantity_and_item(line.shown_charge),
        summary.format_purchase_terms(line.shown_charge),
        summary.format_line_amount(line, line.before),
        summary.format_line_amount(line, line.after),
        format_usd(line.change_usd_per_month, show_sign=True),
    )
