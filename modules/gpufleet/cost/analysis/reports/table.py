"""Reports for a terminal: plain text, legible without colour and at any width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpufleet.cost.analysis.diff import CostDiff, Line
from gpufleet.cost.analysis.estimate import Estimate
from gpufleet.cost.analysis.pool import Pool, by_pool
from gpufleet.cost.analysis.reports import summary
from gpufleet.cost.formatting import count, number, span, usd

Row = Sequence[str]
LEFT = {"POOL", "WHAT", "REGION", "PURCHASE", "OP", "NAME", "AGAINST", "CHEAPER", "MACHINE", "CARRIES"}


def estimate(of: Estimate) -> str:
    """Write what a stack costs by pool, then its total, budget, gaps, notes and the prices behind it."""
    month = of.bill.usd_per_month
    rows = [_pool(pool) for pool in by_pool(of.bill)]
    header = ("POOL", "WHAT", "REGION", "PURCHASE", "COUNT", "HOURS", "USD/HOUR", "USD/MONTH", "RANGE")
    total = (
        f"{usd(month.expected)} a month, {usd(of.bill.usd_per_hour.expected)} an hour while all of it runs"
    )
    lines = [f"{of.stack}: {total}{summary.holes(of.bill)}", f"  {of.verdict}"]
    if not month.is_exact:
        lines.append(f"  between {span(month, ' and ')} a month")
    return "\n".join(
        [
            *lines,
            "",
            *grid(header, rows),
            *section("Without price", summary.gaps(of.bill.unpriced)),
            *section("Notes", of.notes),
            *section("Prices", summary.sources(of.bill.charges)),
        ]
    )


def diff(of: CostDiff) -> str:
    """Write what a change costs: the sentence, the changed lines, then gaps, warnings and the policy."""
    changed = [line for line in of.lines if line.changed]
    same = len(of.lines) - len(changed)
    header = ("OP", "NAME", "WHAT", "PURCHASE", "BEFORE", "AFTER", "CHANGE")
    lines = [summary.headline(of), *summary.notes(of)]
    lines += ["", *grid(header, [_line(line) for line in changed])] if changed else []
    lines += ["", f"{summary.plural(same, 'line')} unchanged"] if same else []
    lines += section("Without price", summary.gaps(of.unpriced))
    lines += section("Warnings", summary.warnings(of))
    lines += section("Notes", of.notes)
    lines += section("Policy violated", [f"{each.rule}: {each.message}" for each in of.policy.violations])
    lines += section("Policy kept", summary.kept(of.policy))
    return "\n".join([*lines, *section("Prices", summary.sources(line.shown for line in changed))])


def grid(header: Row, rows: Iterable[Row]) -> list[str]:
    """Line cells up in columns: words to the left, figures to the right."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(header))]
    left = [name in LEFT for name in header]
    return [
        "  ".join(
            cell.ljust(width) if to_left else cell.rjust(width)
            for cell, width, to_left in zip(row, widths, left, strict=True)
        ).rstrip()
        for row in cells
    ]


def section(title: str, lines: Iterable[str]) -> list[str]:
    """Write a titled list, nothing where it is empty."""
    listed = [f"  {line}" for line in lines]
    return ["", f"{title}:", *listed] if listed else []


def _pool(pool: Pool) -> Row:
    return (
        pool.name,
        pool.machine,
        pool.region,
        pool.purchase.replace("_", " "),
        count(pool.count),
        number(pool.hours),
        usd(pool.usd_per_hour.expected),
        usd(pool.usd_per_month.expected),
        "" if pool.usd_per_month.is_exact else span(pool.usd_per_month),
    )


def _line(line: Line) -> Row:
    before, after = line.before, line.after
    return (
        line.op,
        f"{line.shown.name} {line.shown.component}",
        summary.what(line.shown),
        summary.terms(line.shown),
        usd(before.usd_per_month.expected) if before else "-",
        usd(after.usd_per_month.expected) if after else "-",
        usd(line.usd_per_month, sign=True),
    )
