"""Plots of a comparison, drawn by Vega-Lite without a browser.

Input: an ``AcceleratorComparison``. Output: a chart specification or SVG text. The colours are Okabe and Ito's, which
colour-blind readers can distinguish; shapes, dashes or text repeat what a colour shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpufleet.errors import InputError
from gpufleet.sizing.compare.comparison import AcceleratorComparison
from gpufleet.sizing.compare.plots import bars, power, roofline, scatter
from gpufleet.sizing.compare.plots.style import render_svg

PLOTS: dict[str, Callable[[AcceleratorComparison], Any]] = {
    "roofline": roofline.roofline_chart,
    "memory-bandwidth": scatter.memory_size_and_bandwidth_chart,
    "tokens": bars.tokens_per_s_chart,
    "per-watt": bars.tokens_per_joule_chart,
    "per-dollar": bars.tokens_per_dollar_chart,
    "training": bars.training_speed_chart,
    "power": power.power_chart,
}


def draw_svg(comparison: AcceleratorComparison, plot_name: str) -> str:
    """Return one plot as SVG; raise InputError if the comparison has no data for it."""
    return render_svg(PLOTS[plot_name](comparison))


def draw_possible_plots(comparison: AcceleratorComparison) -> dict[str, str]:
    """Return every plot for which the comparison has data, as SVG."""
    drawn = {}
    for name in PLOTS:
        try:
            drawn[name] = draw_svg(comparison, name)
        except InputError:
            continue  # the comparison has no model, price or training task
    return drawn
