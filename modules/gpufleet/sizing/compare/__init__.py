"""Comparison of accelerators: facts, prices, and a model's speed per watt and per dollar.

Input: names of accelerators and an optional workload. Output: a ``Comparison`` with facts of the catalogue, the
cheapest known prices, and the speed of the smallest replica that fits. It is printed as a table, JSON, plots or an
HTML page; only plots need the plotting libraries.
"""

from __future__ import annotations

from gpufleet.sizing.compare.builder import compare_accelerators
from gpufleet.sizing.compare.comparison import ComparedAccelerator, Comparison, DevicePrice
from gpufleet.sizing.compare.document import build_document, load_schema
from gpufleet.sizing.compare.report import format_report
from gpufleet.sizing.compare.selection import DEFAULT_ACCELERATORS, select_accelerators

__all__ = [
    "DEFAULT_ACCELERATORS",
    "ComparedAccelerator",
    "Comparison",
    "DevicePrice",
    "build_document",
    "compare_accelerators",
    "format_report",
    "load_schema",
    "select_accelerators",
]
