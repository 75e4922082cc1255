"""Accelerators beside each other: what they are, what they do for a model, per watt and per dollar.

In come names of accelerators and, where one is given, a workload. Out goes a ``Comparison``: facts of the
catalogue, the cheapest known prices, and the speed of the smallest replica that fits, with its interval. It is
written as a table, as JSON, as plots and as one page; only plots need the plotting libraries.
"""

from __future__ import annotations

from gpufleet.sizing.compare.builder import compare
from gpufleet.sizing.compare.comparison import Comparison, DevicePrice, Subject
from gpufleet.sizing.compare.document import document, schema
from gpufleet.sizing.compare.report import report
from gpufleet.sizing.compare.selection import USUAL, chosen

__all__ = [
    "USUAL",
    "Comparison",
    "DevicePrice",
    "Subject",
    "chosen",
    "compare",
    "document",
    "report",
    "schema",
]
