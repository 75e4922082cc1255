"""What a rack of our own costs, and when it has paid for itself against a cloud.

In come a rack file with its cost facts (``gpufleet.fleet``) and a cloud machine's price. Out go the cost per
hour, month, node and core; the month in which buying has cost less than renting; the utilisation above which
it does; how far each figure can move before the answer changes; a plot. These are planning figures: floats,
shown to the cent.
"""

from __future__ import annotations

from gpufleet.cost.ownership.cloud import Cloud, Request, candidates, chosen
from gpufleet.cost.ownership.compare import Comparison
from gpufleet.cost.ownership.own import Own, own
from gpufleet.cost.ownership.plot import page, svg
from gpufleet.cost.ownership.report import document, table
from gpufleet.cost.ownership.sensitivity import Case, cases

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
