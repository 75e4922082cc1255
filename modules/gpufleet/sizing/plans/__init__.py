"""Ranked plans: from a question (workload, traffic or work, constraints) to hardware, layout, time and money.

In comes a ``Question``. Out comes an ``Answer``: plans, best first, each with its speeds, power and price, and
what is to be said of them. Nothing that a rule of legality blocks is among them, except where one hardware
and one number of devices were asked for: that plan is always answered, with the reason why it can't be.
"""

from __future__ import annotations

from gpufleet.sizing.plans.document import build_document, load_schema
from gpufleet.sizing.plans.options import PlanOptions, parse_options
from gpufleet.sizing.plans.report import format_report
from gpufleet.sizing.plans.request import RANKS, SizingRequest
from gpufleet.sizing.plans.result import Plan, SizingResult
from gpufleet.sizing.plans.search import find_plans

__all__ = [
    "RANKS",
    "Plan",
    "PlanOptions",
    "SizingRequest",
    "SizingResult",
    "build_document",
    "find_plans",
    "format_report",
    "load_schema",
    "parse_options",
]
