"""Bar charts: tokens per second with their interval, per watt and per dollar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpufleet.errors import InputError
from gpufleet.sizing.compare.comparison import AcceleratorComparison, ComparedAccelerator
from gpufleet.sizing.compare.plots.labels import axis_end_that_fits_labels
from gpufleet.sizing.compare.plots.style import (
    WIDTH,
    Row,
    accelerator_kind_label,
    build_chart_title,
    join_names_up_to,
    kind_color_encoding,
    wrap_lines,
)
from gpufleet.sizing.plans.formatting import format_three_digits
from gpufleet.sizing.plans.result import SizingPlan

Measure = Callable[[ComparedAccelerator], tuple[float, float, float] | None]
STEP = 24
BAR_AREA_WIDTH = WIDTH - 140  # pixels; names are left of the bars
AXIS_TITLE = 60  # characters of a line
NAME_AXIS = {"labelLimit": 300, "ticks": False, "domain": False, "labelPadding": 6}


def tokens_per_s_chart(comparison: AcceleratorComparison) -> Any:
    """Draw tokens per second, generated or trained on, with the 80 % interval."""
    trains = comparison.workload is not None and comparison.workload.is_training
    axis = f"tokens/s {'trained on' if trains else 'generated'} by the replica, with 80 % interval"
    return _bar_chart(comparison, "Tokens per second", axis, lambda compared: _scale_speed(compared, 1.0))


def training_speed_chart(comparison: AcceleratorComparison) -> Any:
    """Draw tokens per second that one device trains on."""
    if comparison.workload is None or not comparison.workload.is_training:
        raise InputError("needs a training task", where="--plot training", remedy="give --task full_finetune")
    axis = "tokens/s trained on per device, with 80 % interval"
    return _bar_chart(
        comparison,
        "Training speed of one device",
        axis,
        lambda s: _scale_speed(s, 1 / s.plan.devices if s.plan else None),
    )


def tokens_per_joule_chart(comparison: AcceleratorComparison) -> Any:
    """Draw tokens per joule: tokens per second and watt."""
    axis = "tokens per joule (tokens/s per watt of the devices), with the interval of the speed"
    return _bar_chart(comparison, "Tokens per joule", axis, _per_joule)


def tokens_per_dollar_chart(comparison: AcceleratorComparison) -> Any:
    """Draw a million tokens for a dollar at the cheapest known price."""
    axis = "million tokens per USD, cheapest known price, with the interval of the speed"
    return _bar_chart(comparison, "Tokens per dollar", axis, _per_dollar, priced=True)


def _scale_speed(compared: ComparedAccelerator, factor: float | None) -> tuple[float, float, float] | None:
    plan = compared.plan
    if plan is None or factor is None:
        return None
    speeds = (plan.tokens_per_s, plan.tokens_per_s_low, plan.tokens_per_s_high)
    return None if None in speeds else tuple((speed or 0.0) * factor for speed in speeds)  # type: ignore[return-value]  # three in, three out


def _per_joule(compared: ComparedAccelerator) -> tuple[float, float, float] | None:
    plan: SizingPlan | None = compared.plan
    return _scale_speed(compared, 1 / plan.total_watts if plan and plan.total_watts else None)


def _per_dollar(compared: ComparedAccelerator) -> tuple[float, float, float] | None:
    usd = compared.replica_usd_per_hour
    return _scale_speed(compared, 3600 / 1e6 / usd if usd else None)


def _bar_chart(
    comparison: AcceleratorComparison, title: str, axis: str, measure: Measure, *, priced: bool = False
) -> Any:
    import altair as alt

    rows = _rows(comparison, title, measure, priced=priced)
    rows.sort(key=lambda row: -row["value"])
    names = [row["name"] for row in rows]
    scale = alt.Scale(
        domain=[0, axis_end_that_fits_labels([(row["high"], row["label"]) for row in rows], BAR_AREA_WIDTH)],
        nice=False,
    )
    x = alt.X("value:Q", title=wrap_lines(axis, AXIS_TITLE), scale=scale, axis=alt.Axis(tickCount=6))
    y = alt.Y("name:N", title=None, sort=names, axis=alt.Axis(**NAME_AXIS))
    base = alt.Chart(alt.Data(values=rows))
    bars = base.mark_bar(height=14).encode(
        x=x, y=y, color=kind_color_encoding(alt, {row["kind"] for row in rows})
    )
    interval_rules = base.mark_rule(strokeWidth=2, color="#222222").encode(
        x=alt.X("low:Q", scale=scale), x2="high:Q", y=y
    )
    interval_ticks = [
        base.mark_tick(thickness=2, size=9, color="#222222").encode(x=alt.X(f"{end}:Q", scale=scale), y=y)
        for end in ("low", "high")
    ]
    value_labels = base.mark_text(align="left", dx=6, fontSize=12).encode(
        x=alt.X("high:Q", scale=scale), y=y, text="label:N"
    )
    plot = alt.layer(bars, interval_rules, *interval_ticks, value_labels)
    unknown = "No known price, or no plan" if priced else "No plan, or unknown speed"
    heading = build_chart_title(
        alt, f"{title}: {_workload_text(comparison)}", _subtitle(comparison, rows, unknown)
    )
    return plot.properties(width=BAR_AREA_WIDTH, height=STEP * len(rows), title=heading)


def _rows(comparison: AcceleratorComparison, title: str, measure: Measure, *, priced: bool) -> list[Row]:
    if comparison.workload is None:
        raise InputError("needs a model", where="--plot", remedy="give --model")
    rows = []
    for compared in comparison.accelerators:
        speed_range = measure(compared)
        if speed_range is not None:
            value, low, high = speed_range
            label = format_three_digits(value) + (_price_label(compared) if priced else "")
            row = {
                "name": compared.name_with_count,
                "kind": accelerator_kind_label(compared.accelerator),
                "value": value,
            }
            rows.append(row | {"low": low, "high": high, "label": label})
    if not rows:
        raise InputError(f"{title.lower()}: not known for any of these accelerators", where="--plot")
    return rows


def _price_label(compared: ComparedAccelerator) -> str:
    """Return purchase kind and month of the price."""
    price = compared.cheapest_device_price
    day = (price.as_of or "undated").split("/")[-1][:7] if price else ""
    return f"  ({price.purchase.replace('_', ' ')}, {day})" if price else ""


def _workload_text(comparison: AcceleratorComparison) -> str:
    work = comparison.workload
    if work is None:
        return ""
    if work.is_training:
        return f"{work.model.name}, {work.task.replace('_', ' ')}, {work.precision}, {work.context_tokens:,} tokens"
    return f"{work.model.name}, {work.precision}, {work.batch} stream{'s' if work.batch > 1 else ''}"


def _subtitle(comparison: AcceleratorComparison, rows: list[Row], unknown: str) -> list[str]:
    drawn = {row["name"] for row in rows}
    missing = [
        compared.accelerator.name
        for compared in comparison.accelerators
        if compared.name_with_count not in drawn
    ]
    text = "Each on the smallest number of devices that fits the model, with the default engine of that hardware."
    return wrap_lines(text) + (wrap_lines(f"{unknown}: {join_names_up_to(missing)}.") if missing else [])
