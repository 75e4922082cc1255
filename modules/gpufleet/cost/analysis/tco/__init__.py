"""Total cost of ownership: a rack that we own against renting from a cloud.

The inputs are a rack file with its cost facts (``gpufleet.fleet``) and a cloud machine's price. The results are the
cost per hour, month, node and core, the break-even month and utilisation, their sensitivity, and a plot. These are
planning figures: floats, shown to the cent.
"""

from __future__ import annotations

from gpufleet.cost.analysis.tco.cloud import (
    CloudAlternative,
    CloudRequest,
    choose_alternative,
    find_alternatives,
)
from gpufleet.cost.analysis.tco.comparison import Comparison
from gpufleet.cost.analysis.tco.plot import draw_svg, render_page
from gpufleet.cost.analysis.tco.rack import RackCost, compute_rack_cost
from gpufleet.cost.analysis.tco.report import build_document, format_table
from gpufleet.cost.analysis.tco.sensitivity import SensitivityCase, build_sensitivity_cases

__all__ = [
    "CloudAlternative",
    "CloudRequest",
    "Comparison",
    "RackCost",
    "SensitivityCase",
    "build_document",
    "build_sensitivity_cases",
    "choose_alternative",
    "compute_rack_cost",
    "draw_svg",
    "find_alternatives",
    "format_table",
    "render_page",
]
