"""Plots of a difference as SVG text, drawn by Vega-Lite without a browser.

Text and lines take the page's colours (``data/diff.html.j2``), so that plots work in a dark theme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from gpufleet.boundary import Json
from gpufleet.cost.analysis.diff import CostDiff
from gpufleet.cost.analysis.what_if import WhatIfRow
from gpufleet.cost.money import ZERO
from gpufleet.cost.pricing.bill import Bill, Charge

# Okabe and Ito's palette, distinct for colour-blind readers too. Order and text repeat the meaning of colours.
BEFORE, AFTER = "#999999", "#0072B2"
KIND_COLOURS = {
    "on demand": "#0072B2",
    "spot": "#E69F00",
    "reserved 1y": "#009E73",
    "reserved 3y": "#CC79A7",
}
MOST_BARS = 12
WIDTH = 560

GROUPS: dict[str, Callable[[Charge], str]] = {
    "pool": lambda charge: charge.pool or charge.name,
    "purchase": lambda charge: charge.purchase.replace("_", " "),
    "cloud": lambda charge: charge.cloud,
}


def plot_cost_before_and_after(diff: CostDiff, grouping: str) -> str | None:
    """Draw the monthly cost before and after by pool, purchase or cloud; None without data."""
    key = GROUPS[grouping]
    sums_by_time = {"before": _sum_by_group(diff.before, key), "after": _sum_by_group(diff.after, key)}
    names = sorted(
        {*sums_by_time["before"], *sums_by_time["after"]}, key=lambda name: -_larger_sum(sums_by_time, name)
    )
    shown_names = [name for name in names if _larger_sum(sums_by_time, name)][:MOST_BARS]
    rows = [
        {"name": name, "when": time, "usd": float(sums.get(name, ZERO))}
        for name in shown_names
        for time, sums in sums_by_time.items()
    ]
    return _draw_bars(rows, shown_names) if rows else None


def plot_what_if_costs(rows: Sequence[WhatIfRow]) -> str | None:
    """Draw the cost of each pool's machines by purchase kind; a tick marks the present cost."""
    shown_rows = sorted(rows, key=lambda row: -row.usd_per_month)[:MOST_BARS]
    bars = [
        {
            "name": _machine_label(row),
            "kind": option.kind.replace("_", " "),
            "usd": float(option.usd_per_month),
        }
        for row in shown_rows
        for option in row.options
        if option.usd_per_month is not None
    ]
    current = [{"name": _machine_label(row), "usd": float(row.usd_per_month)} for row in shown_rows]
    return _draw_purchase_kinds(bars, current, [_machine_label(row) for row in shown_rows]) if bars else None


def plot_price_history(points: Iterable[tuple[str, date, Decimal]]) -> str | None:
    """Draw prices over time: (item, day, USD per hour); None unless a price is known on two days."""
    rows: list[Json] = [
        {"what": what, "day": day.isoformat(), "usd": float(usd)} for what, day, usd in points
    ]
    days: dict[str, set[str]] = {}
    for row in rows:
        days.setdefault(row["what"], set()).add(row["day"])
    changed_rows = [row for row in rows if len(days[row["what"]]) > 1]
    return _draw_lines(changed_rows) if changed_rows else None


def _sum_by_group(bill: Bill, key: Callable[[Charge], str]) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = {}
    for charge in bill.charges:
        sums[key(charge)] = sums.get(key(charge), ZERO) + charge.usd_per_month.expected
    return sums


def _larger_sum(sums_by_time: dict[str, dict[str, Decimal]], name: str) -> Decimal:
    return max(sums.get(name, ZERO) for sums in sums_by_time.values())


def _machine_label(row: WhatIfRow) -> str:
    return f"{row.pool}: {row.count.normalize():f} x {row.machine.removeprefix('accelerator:')}"


def _draw_bars(rows: list[Json], order: list[str]) -> str:
    import altair as alt

    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("name:N", title=None, sort=order, axis=alt.Axis(labelLimit=240)),
        yOffset=alt.YOffset("when:N", sort=["before", "after"]),
        x=alt.X("usd:Q", title="USD per month", axis=_money_axis(alt)),
    )
    colour = alt.Color(
        "when:N", title=None, scale=alt.Scale(domain=["before", "after"], range=[BEFORE, AFTER])
    )
    text = base.mark_text(align="left", dx=4, fontSize=11).encode(text=alt.Text("usd:Q", format=",.0f"))
    return _render_svg(
        (base.mark_bar().encode(color=colour) + text).properties(width=WIDTH, height={"step": 17})
    )


def _draw_purchase_kinds(rows: list[Json], current: list[Json], order: list[str]) -> str:
    import altair as alt

    kinds = list(KIND_COLOURS)
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("name:N", title=None, sort=order, axis=alt.Axis(labelLimit=240)),
        yOffset=alt.YOffset("kind:N", sort=kinds),
        x=alt.X("usd:Q", title="USD per month", axis=_money_axis(alt)),
    )
    scale = alt.Scale(domain=kinds, range=list(KIND_COLOURS.values()))
    text = base.mark_text(align="left", dx=4, fontSize=11).encode(text=alt.Text("usd:Q", format=",.0f"))
    ticks = (
        alt.Chart(alt.Data(values=current))
        .mark_tick(color="#D55E00", thickness=3, size=60)
        .encode(y=alt.Y("name:N", sort=order), x="usd:Q")
    )
    bars = base.mark_bar().encode(color=alt.Color("kind:N", title=None, scale=scale))
    return _render_svg((bars + text + ticks).properties(width=WIDTH, height={"step": 17}))


def _draw_lines(rows: list[Json]) -> str:
    import altair as alt

    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True, interpolate="step-after")
        .encode(
            x=alt.X("day:T", title=None, axis=alt.Axis(format="%Y-%m", tickCount=8)),
            y=alt.Y("usd:Q", title="USD per hour"),
            color=alt.Color(
                "what:N", title=None, legend=alt.Legend(orient="bottom", columns=1, labelLimit=520)
            ),
        )
        .properties(width=WIDTH, height=220)
    )
    return _render_svg(chart)


def _money_axis(alt: Any) -> Any:
    return alt.Axis(format=",.0f", tickCount=5)


def _render_svg(chart: Any) -> str:
    import vl_convert

    styled = chart.configure(
        font="sans-serif",
        background="transparent",
        axis={"gridColor": "#88888844", "domainColor": "#888888", "tickColor": "#888888"},
    ).configure_view(stroke=None)
    svg: str = vl_convert.vegalite_to_svg(styled.to_dict())
    return svg
