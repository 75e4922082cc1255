"""Memory against bandwidth: how large a model may be, and how fast it is read."""

from __future__ import annotations

from typing import Any

from gpufleet.errors import InputError
from gpufleet.sizing.compare.comparison import Comparison
from gpufleet.sizing.compare.plots.labels import LINE, Box, beside, decades, pixel
from gpufleet.sizing.compare.plots.style import (
    GREY,
    WIDTH,
    Row,
    colours,
    kind_of,
    listed,
    shapes,
    titled,
    wrapped,
)

HEIGHT, EACH = 400, 18  # pixels; many names need more of them
SECONDS = (10.0, 1.0, 0.1, 0.01, 0.001)  # to read the whole memory once
NAMED_AT = 0.15  # of a line's length
Domain = tuple[float, float]


def chart(comparison: Comparison) -> Any:
    """Draw one mark an accelerator on logarithmic axes, with lines of equal time to read all of the memory."""
    import altair as alt

    rows = _rows(comparison)
    kinds = {row["kind"] for row in rows}
    across, up = (
        decades([row["memory"] for row in rows], 1.8),
        decades([row["bandwidth"] for row in rows], 1.8),
    )
    tall = max(HEIGHT, EACH * len(rows))
    x = alt.X("memory:Q", title="usable memory of one device (GiB)", scale=_log(alt, across))
    y = alt.Y("bandwidth:Q", title="memory bandwidth (GB/s)", scale=_log(alt, up), axis=alt.Axis(format=","))
    marks = alt.Chart(alt.Data(values=rows)).mark_point(size=90, filled=True, opacity=1)
    marks = marks.encode(x=x, y=y, color=colours(alt, kinds), shape=shapes(alt, kinds))
    title = titled(alt, "Memory and bandwidth of one device", _subtitle(comparison))
    lines, times = _times(across, up)
    layers = [*_drawn_times(alt, lines, times, x, y), marks, *_names(alt, rows, times, (across, up, tall))]
    return alt.layer(*layers).properties(width=WIDTH, height=tall, title=title)


def _rows(comparison: Comparison) -> list[Row]:
    parts = [each.part for each in comparison.subjects if each.part.bandwidth_gb_s]
    if not parts:
        raise InputError("no memory bandwidth is known of any of these", where="memory-bandwidth")
    return [
        {
            "name": part.name,
            "kind": kind_of(part),
            "memory": part.usable_gib or part.memory_gib,
            "bandwidth": part.bandwidth_gb_s,
        }
        for part in parts
    ]


def _subtitle(comparison: Comparison) -> list[str]:
    unknown = [each.part.name for each in comparison.subjects if not each.part.bandwidth_gb_s]
    text = "Dotted: the time to read all of the memory once; nothing that fills it makes a token faster."
    return wrapped(text) + (wrapped(f"Bandwidth not known: {listed(unknown)}.") if unknown else [])


def _log(alt: Any, domain: tuple[float, float]) -> Any:
    return alt.Scale(type="log", domain=list(domain), nice=False)


def _names(alt: Any, rows: list[Row], times: list[Row], field: tuple[Domain, Domain, int]) -> list[Any]:
    """Name points, those that are named from the right with their text's end at the point."""
    across, up, tall = field
    points = [(pixel(r["memory"], across, WIDTH), tall - pixel(r["bandwidth"], up, tall)) for r in rows]
    fixed = [_box_of(each, across, up, tall) for each in times]
    boxes = beside(points, [row["name"] for row in rows], WIDTH, tall, fixed)
    place = {"x": alt.X("x:Q", scale=None, axis=None), "y": alt.Y("y:Q", scale=None, axis=None)}
    layers = []
    for side in ("left", "right", "center"):
        texts = [
            {"name": row["name"], "x": _anchor(box, side), "y": (box[1] + box[3]) / 2}
            for row, box, point in zip(rows, boxes, points, strict=True)
            if _side(box, point[0]) == side
        ]
        marks = alt.Chart(alt.Data(values=texts)).mark_text(align=side, baseline="middle", fontSize=12)
        layers += [marks.encode(text="name:N", **place)] if texts else []
    return layers


def _side(box: Box, x: float) -> str:
    """Return from which end a text is written so that it begins at its point, whatever the font's width."""
    if box[0] > x:
        return "left"
    return "right" if box[2] < x else "center"


def _anchor(box: Box, side: str) -> float:
    return {"left": box[0], "right": box[2], "center": (box[0] + box[2]) / 2}[side]


def _box_of(time: Row, across: Domain, up: Domain, tall: int) -> Box:
    x = pixel(time["memory"], across, WIDTH)
    y = tall - pixel(time["bandwidth"], up, tall)
    return x, y + 2, x + 55, y + 2 + LINE


def _times(across: Domain, up: Domain) -> tuple[list[Row], list[Row]]:
    """Return lines on which the whole memory is read in the same time, and where each is named."""
    gib = 2**30 / 1e9
    lines: list[Row] = []
    names = []
    for seconds in SECONDS:
        low = max(across[0], up[0] * seconds / gib)
        high = min(across[1], up[1] * seconds / gib)
        if low >= high:
            continue
        text = f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms"
        lines += [{"memory": at, "bandwidth": at * gib / seconds, "line": text} for at in (low, high)]
        named = low * (high / low) ** NAMED_AT
        names.append({"memory": named, "bandwidth": named * gib / seconds, "label": text})
    return lines, names


def _drawn_times(alt: Any, lines: list[Row], names: list[Row], x: Any, y: Any) -> list[Any]:
    drawn = alt.Chart(alt.Data(values=lines)).mark_line(strokeDash=[2, 3], color=GREY, opacity=0.7)
    named = alt.Chart(alt.Data(values=names)).mark_text(align="left", dx=8, dy=10, fontSize=11, color=GREY)
    return [drawn.encode(x=x, y=y, detail="line:N"), named.encode(x=x, y=y, text="label:N")]
