"""Scatter plot of memory and bandwidth."""

from __future__ import annotations

from typing import Any

from gpufleet.errors import InputError
from gpufleet.sizing.compare.comparison import AcceleratorComparison
from gpufleet.sizing.compare.plots.labels import (
    LINE_HEIGHT,
    Box,
    log_axis_domain,
    log_axis_pixel,
    place_point_labels,
)
from gpufleet.sizing.compare.plots.style import (
    GREY,
    WIDTH,
    Row,
    accelerator_kind_label,
    build_chart_title,
    join_names_up_to,
    kind_color_encoding,
    kind_shape_encoding,
    wrap_lines,
)

HEIGHT, HEIGHT_PER_NAME = 400, 18  # pixels; many names need more of them
SECONDS = (10.0, 1.0, 0.1, 0.01, 0.001)  # to read all memory once
LABEL_POSITION = 0.15  # of a line's length
Domain = tuple[float, float]


def memory_size_and_bandwidth_chart(comparison: AcceleratorComparison) -> Any:
    """Draw one mark per accelerator on logarithmic axes, with lines of equal time to read all memory."""
    import altair as alt

    rows = _rows(comparison)
    kinds = {row["kind"] for row in rows}
    x_domain, y_domain = (
        log_axis_domain([row["memory"] for row in rows], 1.8),
        log_axis_domain([row["bandwidth"] for row in rows], 1.8),
    )
    height = max(HEIGHT, HEIGHT_PER_NAME * len(rows))
    x = alt.X("memory:Q", title="usable memory of one device (GiB)", scale=_log_scale(alt, x_domain))
    y = alt.Y(
        "bandwidth:Q",
        title="memory bandwidth (GB/s)",
        scale=_log_scale(alt, y_domain),
        axis=alt.Axis(format=","),
    )
    marks = alt.Chart(alt.Data(values=rows)).mark_point(size=90, filled=True, opacity=1)
    marks = marks.encode(
        x=x, y=y, color=kind_color_encoding(alt, kinds), shape=kind_shape_encoding(alt, kinds)
    )
    title = build_chart_title(alt, "Memory and bandwidth of one device", _subtitle(comparison))
    lines, times = _read_time_lines(x_domain, y_domain)
    layers = [
        *_read_time_layers(alt, lines, times, x, y),
        marks,
        *_label_layers(alt, rows, times, (x_domain, y_domain, height)),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=height, title=title)


def _rows(comparison: AcceleratorComparison) -> list[Row]:
    accelerators = [
        compared.accelerator for compared in comparison.accelerators if compared.accelerator.bandwidth_gb_s
    ]
    if not accelerators:
        raise InputError("no memory bandwidth is known for these accelerators", where="memory-bandwidth")
    return [
        {
            "name": accelerator.name,
            "kind": accelerator_kind_label(accelerator),
            "memory": accelerator.usable_gib or accelerator.memory_gib,
            "bandwidth": accelerator.bandwidth_gb_s,
        }
        for accelerator in accelerators
    ]


def _subtitle(comparison: AcceleratorComparison) -> list[str]:
    unknown = [
        compared.accelerator.name
        for compared in comparison.accelerators
        if not compared.accelerator.bandwidth_gb_s
    ]
    text = "Dotted: time to read the full memory once, the minimum time per token of a model that fills it."
    return wrap_lines(text) + (
        wrap_lines(f"Bandwidth not known: {join_names_up_to(unknown)}.") if unknown else []
    )


def _log_scale(alt: Any, domain: tuple[float, float]) -> Any:
    return alt.Scale(type="log", domain=list(domain), nice=False)


def _label_layers(
    alt: Any, rows: list[Row], times: list[Row], field: tuple[Domain, Domain, int]
) -> list[Any]:
    """Label the points; labels left of a point are right-aligned."""
    x_domain, y_domain, height = field
    points = [
        (
            log_axis_pixel(r["memory"], x_domain, WIDTH),
            height - log_axis_pixel(r["bandwidth"], y_domain, height),
        )
        for r in rows
    ]
    fixed = [_label_box(time, x_domain, y_domain, height) for time in times]
    boxes = place_point_labels(points, [row["name"] for row in rows], WIDTH, height, fixed)
    place = {"x": alt.X("x:Q", scale=None, axis=None), "y": alt.Y("y:Q", scale=None, axis=None)}
    layers = []
    for side in ("left", "right", "center"):
        texts = [
            {"name": row["name"], "x": _text_x(box, side), "y": (box[1] + box[3]) / 2}
            for row, box, point in zip(rows, boxes, points, strict=True)
            if _text_align(box, point[0]) == side
        ]
        marks = alt.Chart(alt.Data(values=texts)).mark_text(align=side, baseline="middle", fontSize=12)
        layers += [marks.encode(text="name:N", **place)] if texts else []
    return layers


def _text_align(box: Box, x: float) -> str:
    """Return the text alignment that keeps a label at its point with any font."""
    if box[0] > x:
        return "left"
    return "right" if box[2] < x else "center"


def _text_x(box: Box, side: str) -> float:
    return {"left": box[0], "right": box[2], "center": (box[0] + box[2]) / 2}[side]


def _label_box(time: Row, x_domain: Domain, y_domain: Domain, height: int) -> Box:
    x = log_axis_pixel(time["memory"], x_domain, WIDTH)
    y = height - log_axis_pixel(time["bandwidth"], y_domain, height)
    return x, y + 2, x + 55, y + 2 + LINE_HEIGHT


def _read_time_lines(x_domain: Domain, y_domain: Domain) -> tuple[list[Row], list[Row]]:
    """Return lines of equal time to read all memory, and the position of their labels."""
    gib = 2**30 / 1e9
    lines: list[Row] = []
    names = []
    for seconds in SECONDS:
        low = max(x_domain[0], y_domain[0] * seconds / gib)
        high = min(x_domain[1], y_domain[1] * seconds / gib)
        if low >= high:
            continue
        text = f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms"
        lines += [{"memory": at, "bandwidth": at * gib / seconds, "line": text} for at in (low, high)]
        label_memory = low * (high / low) ** LABEL_POSITION
        names.append({"memory": label_memory, "bandwidth": label_memory * gib / seconds, "label": text})
    return lines, names


def _read_time_layers(alt: Any, lines: list[Row], names: list[Row], x: Any, y: Any) -> list[Any]:
    line_marks = alt.Chart(alt.Data(values=lines)).mark_line(strokeDash=[2, 3], color=GREY, opacity=0.7)
    label_marks = alt.Chart(alt.Data(values=names)).mark_text(
        align="left", dx=8, dy=10, fontSize=11, color=GREY
    )
    return [line_marks.encode(x=x, y=y, detail="line:N"), label_marks.encode(x=x, y=y, text="label:N")]
