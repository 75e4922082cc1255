"""Charts of a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal

from markupsafe import Markup

from gpufleet.cost.analysis.diff import CostDiff
from gpufleet.cost.analysis.what_if import WhatIfRow
from gpufleet.cost.money import ZERO
from gpufleet.cost.pricing.bill import Bill, Charge
from gpufleet.page import BarGroup, ChartLine, draw_bar_chart, draw_line_chart

BEFORE_AND_AFTER = {"before": "c0", "after": "c1"}
PURCHASE_KINDS = {"on demand": "c1", "spot": "c2", "reserved 1y": "c3", "reserved 3y": "c4"}
MOST_BARS = 12
MONTH = "USD a month"

GROUPS: dict[str, Callable[[Charge], str]] = {
    "pool": lambda charge: charge.pool or charge.name,
    "purchase": lambda charge: charge.purchase.replace("_", " "),
    "cloud": lambda charge: charge.cloud,
}


def plot_cost_before_and_after(diff: CostDiff, grouping: str) -> Markup | None:
    """Draw the monthly cost before and after by pool, purchase or cloud; None without data."""
    key = GROUPS[grouping]
    sums_by_time = {"before": _sum_by_group(diff.before, key), "after": _sum_by_group(diff.after, key)}
    names = sorted(
        {*sums_by_time["before"], *sums_by_time["after"]}, key=lambda name: -_larger_sum(sums_by_time, name)
    )
    groups = [
        BarGroup(name, {time: float(sums.get(name, ZERO)) for time, sums in sums_by_time.items()})
        for name in names
        if _larger_sum(sums_by_time, name)
    ]
    return draw_bar_chart(groups[:MOST_BARS], BEFORE_AND_AFTER, MONTH) if groups else None


def plot_what_if_costs(rows: Sequence[WhatIfRow]) -> Markup | None:
    """Draw the cost of each pool's machines by purchase kind; a tick marks the present cost."""
    groups = []
    for row in sorted(rows, key=lambda row: -row.usd_per_month)[:MOST_BARS]:
        name = f"{row.pool}: {row.count.normalize():f} x {row.machine.removeprefix('accelerator:')}"
        costs = {
            option.kind.replace("_", " "): float(option.usd_per_month)
            for option in row.options
            if option.usd_per_month is not None
        }
        groups.append(BarGroup(name, costs, float(row.usd_per_month)))
    if not any(group.values for group in groups):
        return None
    return draw_bar_chart(groups, PURCHASE_KINDS, MONTH, "present cost")


def plot_price_history(points: Iterable[tuple[str, date, Decimal]]) -> Markup | None:
    """Draw prices over time: (item, day, USD per hour); None unless a price is known on two days."""
    prices: dict[str, list[tuple[float, float]]] = {}
    for what, day, usd in points:
        prices.setdefault(what, []).append((day.toordinal(), float(usd)))
    lines = [
        ChartLine(what, history, is_step=True)
        for what, history in prices.items()
        if len({day for day, _ in history}) > 1
    ]
    if not lines:
        return None
    days = sorted(day for line in lines for day, _ in line.points)
    ticks = [days[0] + (days[-1] - days[0]) * quarter / 4 for quarter in range(5)]
    labels = [(tick, date.fromordinal(int(tick)).isoformat()[:7]) for tick in ticks]
    return draw_line_chart(lines, labels, x_title="", y_title="USD per hour")


def _sum_by_group(bill: Bill, key: Callable[[Charge], str]) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = {}
    for charge in bill.charges:
        sums[key(charge)] = sums.get(key(charge), ZERO) + charge.usd_per_month.expected
    return sums


def _larger_sum(sums_by_time: dict[str, dict[str, Decimal]], name: str) -> Decimal:
    return max(sums.get(name, ZERO) for sums in sums_by_time.values())
