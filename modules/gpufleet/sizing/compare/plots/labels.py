"""Label placement: geometry in pixels."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

CHARACTER_WIDTH, LINE_HEIGHT = 7.0, 14.0  # pixels of the label font
Box = tuple[float, float, float, float]


def spread_label_positions(preferred: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions near the preferred ones, in the same order, at least ``gap`` apart."""
    order = sorted(range(len(preferred)), key=lambda at: preferred[at])
    places = [min(max(preferred[at], low), high) for at in order]
    for at in range(1, len(places)):
        places[at] = max(places[at], places[at - 1] + gap)
    if places and places[-1] > high:  # no room above: push down again
        places[-1] = high
        for at in range(len(places) - 2, -1, -1):
            places[at] = min(places[at], places[at + 1] - gap)
    positions = [0.0] * len(preferred)
    for place, at in zip(places, order, strict=True):
        positions[at] = place
    return positions


def place_point_labels(
    points: Sequence[tuple[float, float]],
    names: Sequence[str],
    width: float,
    height: float,
    fixed: Sequence[Box] = (),
) -> list[Box]:
    """Return a box for the label of each point (pixels from the top left) that overlaps no other box or point.

    ``fixed`` are boxes that are already drawn. If every candidate overlaps, the one with the least overlap is used.
    """
    markers: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    boxes: list[Box] = []
    for at, ((x, y), name) in enumerate(zip(points, names, strict=True)):
        others = [*markers[:at], *markers[at + 1 :], *fixed, *boxes]
        options = [
            box
            for box in _candidate_boxes(x, y, len(name) * CHARACTER_WIDTH)
            if _is_inside(box, width, height)
        ]
        boxes.append(min(options, key=lambda box: sum(_overlap_area(box, other) for other in others)))
    return boxes


def axis_end_that_fits_labels(rows: Sequence[tuple[float, str]], width: float) -> float:
    """Return the end of a linear axis of ``width`` pixels from 0 on which each value's label fits."""
    return max(
        value * width / max(width - 14 - len(label) * CHARACTER_WIDTH, width / 4) for value, label in rows
    )


def log_axis_pixel(value: float, domain: tuple[float, float], length: float) -> float:
    """Return the pixel of a value on a logarithmic axis of ``length`` pixels."""
    low, high = (log10(end) for end in domain)
    return (log10(value) - low) / (high - low) * length


def log_axis_domain(values: Sequence[float], slack: float = 1.35) -> tuple[float, float]:
    """Return a domain for a logarithmic axis with a margin at both ends."""
    return min(values) / slack, max(values) * slack


def _candidate_boxes(x: float, y: float, width: float) -> list[Box]:
    """Return candidate boxes for a label: right, left, above, below, then farther away."""
    half = LINE_HEIGHT / 2
    near = [
        (x + 9, y - half), (x - 9 - width, y - half), (x - width / 2, y - 9 - LINE_HEIGHT), (x - width / 2, y + 9),
    ]  # fmt: skip
    far = [
        (side, y + step - half)
        for step in (
            -LINE_HEIGHT,
            LINE_HEIGHT,
            -1.8 * LINE_HEIGHT,
            1.8 * LINE_HEIGHT,
            -2.6 * LINE_HEIGHT,
            2.6 * LINE_HEIGHT,
        )
        for side in (x + 11, x - 11 - width)
    ]
    return [(left, top, left + width, top + LINE_HEIGHT) for left, top in (*near, *far)]


def _is_inside(box: Box, width: float, height: float) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height


def _overlap_area(box: Box, other: Box) -> float:
    """Return the overlap of two boxes in square pixels."""
    across = min(box[2], other[2]) - max(box[0], other[0])
    down = min(box[3], other[3]) - max(box[1], other[1])
    return across * down if across > 0 and down > 0 else 0.0
