"""What a rack of our own costs, and when it has paid for itself against a cloud.

In come a rack file with its cost facts (``gpufleet.fleet``) and a cloud machine's price. Out go the cost per
hour, month, node and core; the month in which buying has cost less than renting; the utilisation above which
it does; how far each figure can move before the answer changes; a plot. These are planning figures: floats,
shown to the cent.
"""

from __future__ import annotations

from gpufleet.cost.analysis.tco.cloud import Cloud, Request, candidates, chosen
from gpufleet.cost.analysis.tco.comparison import Comparison
from gpufleet.cost.analysis.tco.plot import page, svg
from gpufleet.cost.analysis.tco.rack import Own, own
from gpufleet.cost.analysis.tco.report import document, table
from gpufleet.cost.analysis.tco.sensitivity import Case, cases

__all__ = [
    "Case",
    "Cloud",
    "Comparison",
    "Own",
    "Request",
    "candidates",
    "cases",
    "chosen",
    "document",
    "own",
    "page",
    "svg",
    "table",
]
