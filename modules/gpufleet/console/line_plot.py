"""Small line plots as SVG inside a page, drawn without a library: a page of a rack has hundreds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

Point = tuple[float, float]
MAX_POINTS = 600
MARGIN = 3.0


@dataclass(frozen=True)
class Line:
    """One line of a plot; ``css_class`` is a class of the page's style."""

    points: Sequence[Point]
    css_class: str = "line"


@dataclass(frozen=True)
class Frame:
    """The range of a plot and its size in pixels."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float
    width: int
    height: int

    def place(self, point: Point) -> str:
        """Return a point's place in the picture."""
        x = (point[0] - self.low_x) / (self.high_x - self.low_x) * (self.width - 2 * MARGIN) + MARGIN
        y = (point[1] - self.low_y) / (self.high_y - self.low_y) * (self.height - 2 * MARGIN)
        return f"{x:.1f},{self.height - MARGIN - y:.1f}"


def draw_plot(
    lines: Sequence[Line],
    label: str,
    *,
    limits: Sequence[float] = (),
    scale: Sequence[Point] = (),
    width: int = 220,
    height: int = 60,
) -> Markup:
    """Return lines, and limits as dashed lines; ``label`` is read to people who cannot see the picture.

    Plots that get the same points as ``scale`` have the same axes.
    """
    shown = [Line(thin_out(line.points), line.css_class) for line in lines if line.points]
    if not shown:
        return Markup("")
    points = [*scale, *(point for line in shown for point in line.points)]
    frame = fit_frame(points, limits, width, height)
    parts = [
        Markup('<line class="limit" x1="0" x2="{}" y1="{y}" y2="{y}"/>').format(
            width, y=frame.place((frame.low_x, limit)).partition(",")[2]
        )
        for limit in limits
    ]
    parts += [draw_line(line, frame) for line in shown]
    head = Markup(
        '<svg class="small" role="img" aria-label="{}" viewBox="0 0 {} {}" width="{}" height="{}">'
    ).format(escape(label), width, height, width, height)
    return head + Markup("").join(parts) + Markup("</svg>")


def draw_line(line: Line, frame: Frame) -> Markup:
    """Return a line; its last point is marked, and a single point is only a mark."""
    places = [frame.place(point) for point in line.points]
    x, _, y = places[-1].partition(",")
    mark = Markup('<circle class="{}" cx="{}" cy="{}" r="2.2"/>').format(line.css_class, x, y)
    if len(places) == 1:
        return mark
    return Markup('<polyline class="{}" points="{}"/>').format(line.css_class, " ".join(places)) + mark


def fit_frame(points: Sequence[Point], limits: Sequence[float], width: int, height: int) -> Frame:
    """Return the frame that holds all points and limits; equal values are drawn in the middle."""
    xs, ys = [point[0] for point in points], [*(point[1] for point in points), *limits]
    low_x, high_x = min(xs), max(xs)
    low_y, high_y = min(ys), max(ys)
    padding = (high_y - low_y) * 0.08 or abs(high_y) * 0.05 or 1.0
    if high_x == low_x:
        low_x, high_x = low_x - 1.0, high_x + 1.0
    return Frame(low_x, high_x, low_y - padding, high_y + padding, width, height)


def thin_out(points: Sequence[Point]) -> Sequence[Point]:
    """Return at most MAX_POINTS of the points, the last one included."""
    if len(points) <= MAX_POINTS:
        return points
    step = -(-len(points) // MAX_POINTS)
    return [*points[:-1:step], points[-1]]
