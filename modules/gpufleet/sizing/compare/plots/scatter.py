"""Memory against bandwidth: how large a model may be, and how fast it is read."""

from __future__ import annotations

from typing import Any

from gpufleet.errors import InputError
from gpufleet.sizing.compare.comparison import Comparison
from gpufleet.sizing.compare.plots.labels import beside, decades, pixel
from gpufleet.sizing.compare.plots.style import GREY, WIDTH, Row, colours, kind_of, shapes, titled, wrapped

HEIGHT = 400
SECONDS = (1.0, 0.1, 0.01)  # to read the whole memory once


def chart(comparison: Comparison) -> Any:
    """Draw one mark an accelerator on logarithmic axes, with lines of equal time to read all of the memory."""
    import altair as alt

    rows = _rows(comparison)
    kinds = {row["kind"] for row in rows}
    across, up = (
        decades([row["memory"] for row in rows], 1.8),
        decades([row["bandwidth"] for row in rows], 1.8),
    )
    x = alt.X("memory:Q", title="usable memory of one device (GiB)", scale=_log(alt, across))
    y = alt.Y("bandwidth:Q", title="memory bandwidth (GB/s)", scale=_log(alt, up), axis=alt.Axis(format=","))
    marks = alt.Chart(alt.Data(values=rows)).mark_point(size=90, filled=True, opacity=1)
    marks = marks.encode(x=x, y=y, color=colours(alt, kinds), shape=shapes(alt, kinds))
    title = titled(alt, "Memory and bandwidth of one device", _subtitle(comparison, rows))
    layers = [*_times(alt, across, up, x, y), marks, _names(alt, rows, across, up)]
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=title)


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


def _subtitle(comparison: Comparison, rows: list[Row]) -> list[str]:
    unknown = [each.part.name for each in comparison.subjects if not each.part.bandwidth_gb_s]
    text = "Dotted: the time to read all of the memory once; nothing that fills it makes a token faster."
    return wrapped(text) + (wrapped(f"Bandwidth not known: {', '.join(unknown)}.") if unknown else [])


def _log(alt: Any, domain: tuple[float, float]) -> Any:
    return alt.Scale(type="log", domain=list(domain), nice=False)


def _names(alt: Any, rows: list[Row], across: tuple[float, float], up: tuple[float, float]) -> Any:
    points = [(pixel(r["memory"], across, WIDTH), HEIGHT - pixel(r["bandwidth"], up, HEIGHT)) for r in rows]
    boxes = beside(points, [row["name"] for row in rows], WIDTH, HEIGHT)
    texts = [
        {"name": row["name"], "x": box[0], "y": (box[1] + box[3]) / 2}
        for row, box in zip(rows, boxes, strict=True)
    ]
    marks = alt.Chart(alt.Data(values=texts)).mark_text(align="left", baseline="middle", fontSize=12)
    place = {"x": alt.X("x:Q", scale=None, axis=None), "y": alt.Y("y:Q", scale=None, axis=None)}
    return marks.encode(text="name:N", **place)


def _times(alt: Any, across: tuple[float, float], up: tuple[float, float], x: Any, y: Any) -> list[Any]:
    """Draw lines on which the whole memory is read in the same time, with the time at their upper end."""
    gib = 2**30 / 1e9
    lines, ends = [], []
    for seconds in SECONDS:
        inside = [
            (memory, memory * gib / seconds)
            for memory in (*across, *(rate * seconds / gib for rate in up))
            if across[0] * 0.999 <= memory <= across[1] * 1.001
            and up[0] * 0.999 <= memory * gib / seconds <= up[1] * 1.001
        ]
        if len(inside) < 2:  # noqa: PLR2004 - a line has two ends
            continue
        text = f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms"
        low, high = min(inside), max(inside)
        lines += [{"memory": m, "bandwidth": b, "line": text} for m, b in (low, high)]
        ends.append({"memory": low[0], "bandwidth": low[1], "label": text})
    drawn = alt.Chart(alt.Data(values=lines)).mark_line(strokeDash=[2, 3], color=GREY, opacity=0.7)
    named = alt.Chart(alt.Data(values=ends)).mark_text(align="left", dx=10, dy=-4, fontSize=11, color=GREY)
    return [
        drawn.encode(x=x, y=y, detail="line:N"),
        named.encode(x=x, y=y, text="label:N"),
    ]
