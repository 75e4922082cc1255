"""Total cost of ownership: a rack that we own against renting from a cloud.

The inputs are a rack file with its cost facts (``gpufleet.fleet``) and a cloud machine's price. The results are the
cost per hour, month, node and core, the break-even month and utilisation, their sensitivity, and a plot. These are
planning figures: floats, shown to the cent.
"""

from __future__ import annotations

from gpufleet.cost.analysis.tco.cloud import (
    CloudAlternative,
    CloudMachineRequest,
    choose_cloud_alternative,
    find_cloud_alternatives,
)
from gpufleet.cost.analysis.tco.comparison import RackCloudComparison
from gpufleet.cost.analysis.tco.plot import draw_cumulative_cost_svg, render_tco_html
from gpufleet.cost.analysis.tco.rack import compute_rack_cost
from gpufleet.cost.analysis.tco.report import build_tco_document, format_tco_table
from gpufleet.cost.analysis.tco.sensitivity import build_sensitivity_cases

__all__ = [
    "CloudAlternative",
    "CloudMachineRequest",
    "RackCloudComparison",
    "build_sensitivity_cases",
    "build_tco_document",
    "choose_cloud_alternative",
    "compute_rack_cost",
    "draw_cumulative_cost_svg",
    "find_cloud_alternatives",
    "format_tco_table",
    "render_tco_html",
]
