"""Plots of a difference as SVG text, drawn by Vega-Lite without a browser.

Text and lines take the page's colours (``data/diff.html.j2``), so that plots work in a dark theme.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal

from gpufleet.boundary import Json
from gpufleet.cost.analysis.diff import CostDiff
from gpufleet.cost.analysis.what_if import WhatIfRow
from gpufleet.cost.money import ZERO
from gpufleet.cost.pricing.bill import Bill, Charge
from gpufleet.extra import draw_or_explain

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
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.4.1.json"
_MONEY_AXIS = {
    "field": "usd",
    "type": "quantitative",
    "title": "USD per month",
    "axis": {"format": ",.0f", "tickCount": 5},
}

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
    times = {"field": "when", "type": "nominal"}
    places = {
        "x": _MONEY_AXIS,
        "y": _build_name_axis(order),
        "yOffset": times | {"sort": ["before", "after"]},
    }
    scale = {"domain": ["before", "after"], "range": [BEFORE, AFTER]}
    bars = {"mark": {"type": "bar"}, "encoding": {"color": times | {"scale": scale, "title": None}, **places}}
    layers = [bars, _build_amounts(places)]
    return draw_or_explain(_render_svg, {"layer": layers, "data": {"values": rows}, "height": {"step": 17}})


def _draw_purchase_kinds(rows: list[Json], current: list[Json], order: list[str]) -> str:
    kinds = {"field": "kind", "type": "nominal"}
    places = {
        "x": _MONEY_AXIS,
        "y": _build_name_axis(order),
        "yOffset": kinds | {"sort": list(KIND_COLOURS)},
    }
    scale = {"domain": list(KIND_COLOURS), "range": list(KIND_COLOURS.values())}
    bars = {"mark": {"type": "bar"}, "encoding": {"color": kinds | {"scale": scale, "title": None}, **places}}
    ticks = {
        "data": {"values": current},
        "mark": {"type": "tick", "color": "#D55E00", "thickness": 3, "size": 60},
        "encoding": {
            "x": {"field": "usd", "type": "quantitative"},
            "y": {"field": "name", "type": "nominal", "sort": order},
        },
    }
    layers = [bars, _build_amounts(places), ticks]
    return draw_or_explain(_render_svg, {"layer": layers, "data": {"values": rows}, "height": {"step": 17}})


def _draw_lines(rows: list[Json]) -> str:
    axis = {"format": "%Y-%m", "tickCount": 8}
    legend = {"orient": "bottom", "columns": 1, "labelLimit": 520}
    encoding = {
        "x": {"field": "day", "type": "temporal", "title": None, "axis": axis},
        "y": {"field": "usd", "type": "quantitative", "title": "USD per hour"},
        "color": {"field": "what", "type": "nominal", "title": None, "legend": legend},
    }
    mark = {"type": "line", "interpolate": "step-after", "point": True}
    return draw_or_explain(
        _render_svg, {"data": {"values": rows}, "mark": mark, "encoding": encoding, "height": 220}
    )


def _build_name_axis(order: list[str]) -> Json:
    return {"field": "name", "type": "nominal", "title": None, "sort": order, "axis": {"labelLimit": 240}}


def _build_amounts(places: Json) -> Json:
    """Return the layer that writes each amount beside its bar."""
    text = {"field": "usd", "type": "quantitative", "format": ",.0f"}
    mark = {"type": "text", "align": "left", "dx": 4, "fontSize": 11}
    return {"mark": mark, "encoding": {"text": text, **places}}


def _render_svg(specification: Json) -> str:
    """Render a specification of Vega-Lite: importing Altair to write one takes longer than rendering it."""
    import vl_convert

    axis = {"gridColor": "#88888844", "domainColor": "#888888", "tickColor": "#888888"}
    config = {
        "view": {"continuousWidth": 300, "continuousHeight": 300, "stroke": None},
        "axis": axis,
        "background": "transparent",
        "font": "sans-serif",
    }
    svg: str = vl_convert.vegalite_to_svg(
        {"$schema": SCHEMA, "config": config, "width": WIDTH, **specification}
    )
    return svg
