"""Power plot: rated power of one device, and its estimate under the workload."""

from __future__ import annotations

from typing import Any

from gpufleet.errors import InputError
from gpufleet.sizing.compare.comparison import AcceleratorComparison
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

STEP = 24
BAR_AREA_WIDTH = WIDTH - 140


def power_chart(comparison: AcceleratorComparison) -> Any:
    """Draw the rated power of one device as bars and the estimate under the workload as marks."""
    import altair as alt

    rows = _rows(comparison)
    names = [row["name"] for row in rows]
    scale = alt.Scale(
        domain=[
            0,
            axis_end_that_fits_labels([(row["stated"], row["label"]) for row in rows], BAR_AREA_WIDTH),
        ],
        nice=False,
    )
    x = alt.X("stated:Q", title="power of one device (W)", scale=scale, axis=alt.Axis(tickCount=6))
    y = alt.Y(
        "name:N",
        title=None,
        sort=names,
        axis=alt.Axis(labelLimit=300, ticks=False, domain=False, labelPadding=6),
    )
    base = alt.Chart(alt.Data(values=rows))
    bars = base.mark_bar(height=14, opacity=0.85).encode(
        x=x, y=y, color=kind_color_encoding(alt, {row["kind"] for row in rows})
    )
    texts = base.mark_text(align="left", dx=6, fontSize=12).encode(x=x, y=y, text="label:N")
    drawn = [row for row in rows if row["drawn"] is not None]
    marks = alt.Chart(alt.Data(values=drawn)).mark_tick(thickness=3, size=18, color="#222222")
    layers = [bars, texts] + ([marks.encode(x=alt.X("drawn:Q", scale=scale), y=y)] if drawn else [])
    title = build_chart_title(alt, "Power of one device", _subtitle(comparison, rows))
    return alt.layer(*layers).properties(width=BAR_AREA_WIDTH, height=STEP * len(rows), title=title)


def _rows(comparison: AcceleratorComparison) -> list[Row]:
    rows = []
    for compared in comparison.accelerators:
        accelerator, plan = compared.accelerator, compared.plan
        if accelerator.tdp_w:
            drawn = plan.total_watts / plan.devices if plan and plan.total_watts else None
            label = format_three_digits(accelerator.tdp_w) + (
                f"  ({format_three_digits(drawn)} at work)" if drawn is not None else ""
            )
            row = {
                "name": accelerator.name,
                "kind": accelerator_kind_label(accelerator),
                "stated": accelerator.tdp_w,
                "label": label,
            }
            rows.append(row | {"drawn": drawn})
    if not rows:
        raise InputError("no power rating is known for these accelerators", where="power")
    return sorted(rows, key=lambda row: -float(row["stated"]))


def _subtitle(comparison: AcceleratorComparison, rows: list[Row]) -> list[str]:
    work = comparison.workload
    text = "Bars: rated power as vendors state it."
    if work is not None:
        text += (
            f" Black marks: estimated power while it runs {work.model.name} ({work.task}, {work.precision})."
        )
    drawn_names = {row["name"] for row in rows}
    missing = [
        compared.accelerator.name
        for compared in comparison.accelerators
        if compared.accelerator.name not in drawn_names
    ]
    return wrap_lines(text) + (wrap_lines(f"Not stated: {join_names_up_to(missing)}.") if missing else [])
