"""Comparison of accelerators: facts, prices, and a model's speed per watt and per dollar.

Input: names of accelerators and an optional workload. Output: an ``AcceleratorComparison`` with facts of the catalogue,
the cheapest known prices, and the speed of the smallest replica that fits. It is printed as a table, JSON, plots or an
HTML page; only plots need the plotting libraries.
"""

from __future__ import annotations

from gpufleet.sizing.compare.builder import compare_accelerators
from gpufleet.sizing.compare.document import build_comparison_document, load_comparison_schema
from gpufleet.sizing.compare.report import format_comparison_report
from gpufleet.sizing.compare.selection import DEFAULT_ACCELERATORS

__all__ = [
    "DEFAULT_ACCELERATORS",
    "build_comparison_document",
    "compare_accelerators",
    "format_comparison_report",
    "load_comparison_schema",
]
