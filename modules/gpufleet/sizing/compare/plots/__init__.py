"""Plots of a comparison, drawn by Vega-Lite without a browser: one function per question.

In comes a ``Comparison``, out goes a chart's specification or SVG text. Colours are Okabe and Ito's, told apart by
colour-blind readers too; shapes, dashes or words say everything that colour says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpufleet.errors import InputError
from gpufleet.sizing.compare.comparison import Comparison
from gpufleet.sizing.compare.plots import bars, power, roofline, scatter
from gpufleet.sizing.compare.plots.style import to_svg

PLOTS: dict[str, Callable[[Comparison], Any]] = {
    "roofline": roofline.chart,
    "memory-bandwidth": scatter.chart,
    "tokens": bars.tokens_chart,
    "per-watt": bars.per_watt_chart,
    "per-dollar": bars.per_dollar_chart,
    "training": bars.training_chart,
    "power": power.chart,
}


def draw_svg(comparison: Comparison, name: str) -> str:
    """Draw one plot; what it can't be drawn of is an InputError that says what is missing."""
    return to_svg(PLOTS[name](comparison))


def draw_possible_plots(comparison: Comparison) -> dict[str, str]:
    """Draw every plot that the comparison allows."""
    drawn = {}
    for name in PLOTS:
        try:
            drawn[name] = draw_svg(comparison, name)
        except InputError:
            continue  # it needs a model, a price or a training task that was not given
    return drawn
