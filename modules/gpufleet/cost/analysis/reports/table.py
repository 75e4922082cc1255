"""Reports for a terminal: plain text without colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpufleet.cost.analysis.diff import CostDiff, Line
from gpufleet.cost.analysis.estimate import Estimate
from gpufleet.cost.analysis.pool import PoolCost, group_by_pool
from gpufleet.cost.analysis.reports import summary
from gpufleet.cost.formatting import count, format_number, span, usd

Row = Sequence[str]
LEFT = {"POOL", "WHAT", "REGION", "PURCHASE", "OP", "NAME", "AGAINST", "CHEAPER", "MACHINE", "CARRIES"}


def estimate(estimate: Estimate) -> str:
    """Return total and budget, then cost by pool, unpriced resources, notes and prices."""
    month = estimate.bill.usd_per_month
    rows = [_pool_row(pool) for pool in group_by_pool(estimate.bill)]
    header = ("POOL", "WHAT", "REGION", "PURCHASE", "COUNT", "HOURS", "USD/HOUR", "USD/MONTH", "RANGE")
    total = f"{usd(month.expected)} a month, {usd(estimate.bill.usd_per_hour.expected)} an hour while all of it runs"
    lines = [
        f"{estimate.stack}: {total}{summary.unpriced_count_text(estimate.bill)}",
        f"  {estimate.verdict}",
    ]
    if not month.is_exact:
        lines.append(f"  between {span(month, ' and ')} a month")
    return "\n".join(
        [
            *lines,
            "",
            *align_columns(header, rows),
            *titled_list("Without price", summary.unpriced_lines(estimate.bill.unpriced)),
            *titled_list("Notes", estimate.notes),
            *titled_list("Prices", summary.price_sources(estimate.bill.charges)),
        ]
    )


def diff(diff: CostDiff) -> str:
    """Return headline and changed lines, then unpriced resources, warnings, policy and prices."""
    changed = [line for line in diff.lines if line.changed]
    unchanged_count = len(diff.lines) - len(changed)
    header = ("OP", "NAME", "WHAT", "PURCHASE", "BEFORE", "AFTER", "CHANGE")
    lines = [summary.headline(diff), *summary.notes(diff)]
    lines += ["", *align_columns(header, [_line_row(line) for line in changed])] if changed else []
    lines += ["", f"{summary.plural(unchanged_count, 'line')} unchanged"] if unchanged_count else []
    lines += titled_list("Without price", summary.unpriced_lines(diff.unpriced))
    lines += titled_list("Warnings", summary.warnings(diff))
    lines += titled_list("Notes", diff.notes)
    lines += titled_list(
        "Policy violated", [f"{each.rule}: {each.message}" for each in diff.policy.violations]
    )
    lines += titled_list("Policy kept", summary.kept_limits(diff.policy))
    return "\n".join([*lines, *titled_list("Prices", summary.price_sources(line.shown for line in changed))])


def align_columns(header: Row, rows: Iterable[Row]) -> list[str]:
    """Align cells in columns: text to the left, numbers to the right."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(header))]
    is_left_aligned = [name in LEFT for name in header]
    return [
        "  ".join(
            cell.ljust(width) if to_left else cell.rjust(width)
            for cell, width, to_left in zip(row, widths, is_left_aligned, strict=True)
        ).rstrip()
        for row in cells
    ]


def titled_list(title: str, lines: Iterable[str]) -> list[str]:
    """Return a titled list, nothing if it is empty."""
    indented = [f"  {line}" for line in lines]
    return ["", f"{title}:", *indented] if indented else []


def _pool_row(pool: PoolCost) -> Row:
    return (
        pool.name,
        pool.machine,
        pool.region,
        pool.purchase.replace("_", " "),
        count(pool.count),
        format_number(pool.hours),
        usd(pool.usd_per_hour.expected),
        usd(pool.usd_per_month.expected),
        "" if pool.usd_per_month.is_exact else span(pool.usd_per_month),
    )


def _line_row(line: Line) -> Row:
    before, after = line.before, line.after
    return (
        line.op,
        f"{line.shown.name} {line.shown.component}",
        summary.quantity_text(line.shown),
        summary.terms_text(line.shown),
        usd(before.usd_per_month.expected) if before else "-",
        usd(after.usd_per_month.expected) if after else "-",
        usd(line.usd_per_month, sign=True),
    )
