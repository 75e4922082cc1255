"""Roofline plot: attainable operations per second over operations per byte."""

from __future__ import annotations

from typing import Any

from gpufleet.errors import InputError
from gpufleet.sizing.compare.comparison import (
    AcceleratorComparison,
    peak_tflops_and_format,
    roofline_ridge_point,
)
from gpufleet.sizing.compare.plots.labels import (
    LINE_HEIGHT,
    log_axis_domain,
    log_axis_pixel,
    spread_label_positions,
)
from gpufleet.sizing.compare.plots.style import (
    DASHES,
    GREY,
    LINES,
    WIDTH,
    Row,
    build_chart_title,
    join_names_up_to,
    wrap_lines,
)
from gpufleet.sizing.memory.weights import bits_per_weight

HEIGHT = 420
PLOT_WIDTH = WIDTH - 150  # names are right of the plot area
MIN_INTENSITY = 0.3  # operations per byte


def roofline_chart(comparison: AcceleratorComparison) -> Any:
    """Draw attainable rates over arithmetic intensity on logarithmic axes."""
    import altair as alt

    precision = comparison.workload.precision if comparison.workload else "bf16"
    rows = _roofline_rows(comparison, precision)
    x_domain = (MIN_INTENSITY, max(2000.0, 3 * max(row["ridge"] for row in rows)))
    y_domain = log_axis_domain([row["peak"] for row in rows] + [row["gb_s"] / 1000 for row in rows], 1.6)
    names, height = [row["name"] for row in rows], max(HEIGHT, round((LINE_HEIGHT + 2) * len(rows)))
    x = alt.X("intensity:Q", title="operations per byte read from memory", scale=_log_scale(alt, x_domain))
    y = alt.Y("tflops:Q", title="attainable rate (10¹² operations/s, dense)", scale=_log_scale(alt, y_domain))
    lines = alt.Chart(
        alt.Data(values=[p for row in rows for p in _line_points(row, x_domain, y_domain)])
    ).mark_line(strokeWidth=2)
    colour = alt.Color(
        "name:N", legend=None, scale=alt.Scale(domain=names, range=_cycle_colors(LINES, len(names)))
    )
    dash = alt.StrokeDash(
        "name:N", legend=None, scale=alt.Scale(domain=names, range=_dash_patterns(len(names)))
    )
    ridges = alt.Chart(alt.Data(values=[_ridge_point(row) for row in rows])).mark_point(
        size=45, filled=True, opacity=1
    )
    layers = [
        *_decode_guides(alt, comparison, precision, x_domain, height),
        lines.encode(x=x, y=y, color=colour, strokeDash=dash),
        ridges.encode(x=x, y=y, color=colour),
        *_label_layers(alt, rows, y_domain, height, colour),
    ]
    title = build_chart_title(alt, "Rooflines of one device", _subtitle(comparison, rows, precision))
    return alt.layer(*layers).properties(width=PLOT_WIDTH, height=height, title=title)


def _roofline_rows(comparison: AcceleratorComparison, precision: str) -> list[Row]:
    rows = []
    for accelerator in (compared.accelerator for compared in comparison.accelerators):
        peak, computed_in = peak_tflops_and_format(accelerator, precision)
        if peak and accelerator.bandwidth_gb_s:
            rows.append(
                {
                    "name": accelerator.name, "peak": peak, "gb_s": accelerator.bandwidth_gb_s, "format": computed_in,
                    "ridge": roofline_ridge_point(accelerator, precision),
                }
            )  # fmt: skip
    if not rows:
        raise InputError("no bandwidth or compute rate is known for these accelerators", where="roofline")
    return rows


def _subtitle(comparison: AcceleratorComparison, rows: list[Row], precision: str) -> list[str]:
    drawn = {row["name"] for row in rows}
    missing = [
        compared.accelerator.name
        for compared in comparison.accelerators
        if compared.accelerator.name not in drawn
    ]
    others: dict[str, list[str]] = {}
    common_format = most_common_number_format(rows)
    for row in rows:
        if row["format"] != common_format:
            others.setdefault(row["format"], []).append(row["name"])
    text = f"Weights in {precision}: rates in {common_format}, peaks that vendors state. Dots: the ridge."
    text += "".join(f" In {name}: {join_names_up_to(parts, 6)}." for name, parts in others.items())
    return wrap_lines(text) + (wrap_lines(f"Not known: {join_names_up_to(missing)}.") if missing else [])


def most_common_number_format(rows: list[Row]) -> str:
    """Return the number format of most rates."""
    formats = [row["format"] for row in rows]
    usual: str = max(dict.fromkeys(formats), key=formats.count)
    return usual


def _line_points(row: Row, x_domain: tuple[float, float], y_domain: tuple[float, float]) -> list[Row]:
    slope = row["gb_s"] / 1000  # 10^12 operations per second at one operation per byte
    start = max(x_domain[0], y_domain[0] / slope)
    points = [(start, start * slope), (row["ridge"], row["peak"]), (x_domain[1], row["peak"])]
    return [{"name": row["name"], "intensity": at, "tflops": rate} for at, rate in points]


def _ridge_point(row: Row) -> Row:
    return {"name": row["name"], "intensity": row["ridge"], "tflops": row["peak"]}


def _label_layers(
    alt: Any, rows: list[Row], y_domain: tuple[float, float], height: int, colour: Any
) -> list[Any]:
    """Label every line at its right end, with a leader line."""
    line_ends = [height - log_axis_pixel(row["peak"], y_domain, height) for row in rows]
    order = spread_label_positions(line_ends, LINE_HEIGHT + 1, LINE_HEIGHT, height)
    texts, leader_points = [], []
    for row, end, place in zip(rows, line_ends, order, strict=True):
        name = row["name"]
        texts.append(
            {"name": name, "label": f"{name}: {row['ridge']:,.0f} op/B", "x": PLOT_WIDTH + 24, "y": place}
        )
        leader_points += [
            {"name": name, "x": PLOT_WIDTH, "y": end},
            {"name": name, "x": PLOT_WIDTH + 20, "y": place},
        ]
    at = {"x": alt.X("x:Q", scale=None, axis=None), "y": alt.Y("y:Q", scale=None, axis=None)}
    labels = alt.Chart(alt.Data(values=texts)).mark_text(align="left", baseline="middle", fontSize=12)
    leaders = alt.Chart(alt.Data(values=leader_points)).mark_line(strokeWidth=1, clip=False)
    return [leaders.encode(color=colour, **at), labels.encode(text="label:N", **at)]


def _decode_guides(
    alt: Any, comparison: AcceleratorComparison, precision: str, x_domain: tuple[float, float], height: int
) -> list[Any]:
    """Mark the intensity of decoding: two operations per weight read, times the streams."""
    operations_per_byte = 16.0 / bits_per_weight(precision)  # two operations a weight of so many bits
    batch = comparison.workload.batch if comparison.workload else 1
    marks = [
        {
            "intensity": operations_per_byte * streams,
            "label": f"decode, {streams} stream{'s' if streams > 1 else ''}",
        }
        for streams in sorted({1, batch, 64})
        if x_domain[0] < operations_per_byte * streams < x_domain[1]
    ]
    base = alt.Chart(alt.Data(values=marks)).encode(x=alt.X("intensity:Q", scale=_log_scale(alt, x_domain)))
    return [
        base.mark_rule(color=GREY, strokeDash=[3, 3]),
        base.mark_text(color=GREY, fontSize=11, align="left", dx=4, baseline="bottom").encode(
            y=alt.value(height - 4), text="label:N"
        ),
    ]


def _log_scale(alt: Any, domain: tuple[float, float]) -> Any:
    return alt.Scale(type="log", domain=list(domain), nice=False)


def _cycle_colors(of: tuple[str, ...], count: int) -> list[str]:
    return [of[at % len(of)] for at in range(count)]


def _dash_patterns(count: int) -> list[list[int]]:
    """Return a dash pattern for each line; lines of one colour have different patterns."""
    return [DASHES[at // len(LINES) % len(DASHES)] for at in range(count)]
