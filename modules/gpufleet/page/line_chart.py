"""Lines over an axis as SVG, inside a page or as a file: dark with its reader, its text larger on a narrow screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from markupsafe import Markup

WIDTH, PLOT_HEIGHT, TOP, LINE_HEIGHT = 720, 280, 40, 26
CHARACTER = 12.0  # units of a character at the larger size
# Okabe and Ito's palette, distinct for colour-blind readers too; dashes repeat the difference.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("none", "9 5", "3 4", "14 4 3 4")
STYLE = Markup(
    "<style>.chart{background:#fff}.chart text{font:13px system-ui,sans-serif;fill:#1d2430}"
    ".chart .grid{stroke:#8886}"
    ".chart .mark{stroke:#777;stroke-dasharray:3 3}.chart polyline{fill:none;stroke-width:2.5}"
    "@media(max-width:560px){.chart text{font-size:20px}}"
    "@media(prefers-color-scheme:dark){.chart{background:#14161a}.chart text{fill:#e8eaed}}</style>"
)


@dataclass(frozen=True)
class ChartLine:
    """A named line; ``is_step`` holds each value until the next point."""

    name: str
    points: Sequence[tuple[float, float]]
    is_step: bool = False


@dataclass(frozen=True)
class ChartMark:
    """A vertical line with its text."""

    x: float
    text: str


def draw_line_chart(
    lines: Sequence[ChartLine],
    x_ticks: Sequence[tuple[float, str]],
    *,
    x_title: str,
    y_title: str,
    mark: ChartMark | None = None,
) -> Markup:
    """Return the chart; its y axis starts at 0, and its x axis ends with the last point."""
    y_ticks = choose_ticks(max(y for line in lines for _, y in line.points))
    xs = [x for line in lines for x, _ in line.points]
    low, width = min(xs), (max(xs) - min(xs)) or 1.0
    left = CHARACTER * max(len(text) for _, text in y_ticks) + 10
    bottom = TOP + PLOT_HEIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (x - low) / width * (WIDTH - left - 20), bottom - y / y_ticks[-1][0] * PLOT_HEIGHT

    parts = [_text(0, 20, y_title)]
    for y, label in y_ticks:
        at = place(low, y)[1]
        parts.append(_line("grid", left, at, WIDTH - 20, at))
        parts.append(_text(left - 8, at + 5, label, "end"))
    parts += [_text(place(x, 0)[0], bottom + 22, label, "middle") for x, label in x_ticks]
    parts.append(_text(left, bottom + 46, x_title))
    if mark:
        x = place(mark.x, 0)[0]
        parts.append(_line("mark", x, TOP - 8, x, bottom))
        is_right = x > WIDTH * 0.6
        parts.append(_text(x - 8 if is_right else x + 8, TOP + 8, mark.text, "end" if is_right else "start"))
    for at, line in enumerate(lines):
        look = Markup('stroke="{}" stroke-dasharray="{}"').format(
            COLOURS[at % len(COLOURS)], DASHES[at % len(DASHES)]
        )
        corners = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in _list_corners(line))
        key = bottom + 76 + at * LINE_HEIGHT
        parts.append(Markup('<polyline {} points="{}"/>').format(look, corners))
        parts.append(Markup('<polyline {} points="4,{y} 44,{y}"/>').format(look, y=key - 5))
        parts.append(_text(54, key, line.name))
    height = bottom + 64 + len(lines) * LINE_HEIGHT
    names = ", ".join(line.name for line in lines)
    head = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-label="{}" '
        'viewBox="0 0 {w} {h}" width="{w}" height="{h}">'
    )
    return (
        head.format(f"{y_title}: {names}", w=WIDTH, h=height)
        + STYLE
        + Markup("").join(parts)
        + Markup("</svg>")
    )


def choose_ticks(highest: float, most: int = 5) -> list[tuple[float, str]]:
    """Return round values with their labels from 0 to at least ``highest``."""
    power = 10.0 ** floor(log10(highest / most or 1.0))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * most >= highest * 0.999)
    digits = max(0, ceil(-log10(step)))
    return [(at * step, f"{at * step:,.{digits}f}") for at in range(ceil(highest / step * 0.999) + 1)]


def _list_corners(line: ChartLine) -> list[tuple[float, float]]:
    if not line.is_step:
        return list(line.points)
    held = [(after[0], before[1]) for before, after in zip(line.points, line.points[1:], strict=False)]
    corners = [corner for pair in zip(line.points, held, strict=False) for corner in pair]
    return [*corners, line.points[-1]]


def _line(css: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    place = Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>')
    return place.format(css, x1, y1, x2, y2)


def _text(x: float, y: float, text: str, anchor: str = "start") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)
