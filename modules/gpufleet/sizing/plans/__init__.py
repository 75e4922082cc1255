"""Ranked plans: from a request (workload, traffic or work, constraints) to hardware, layout, time and cost.

Input: a ``SizingRequest``. Output: a ``SizingResult`` with plans, best first, each with its speeds, power and price,
and with warnings. Plans that a legality rule blocks are left out, unless the request names the hardware and the
number of devices: that plan is always in the result, with the reason why it cannot run.
"""

from __future__ import annotations

from gpufleet.sizing.plans.document import build_sizing_document, load_sizing_schema
from gpufleet.sizing.plans.options import PlanOptions, parse_plan_options
from gpufleet.sizing.plans.report import format_sizing_report
from gpufleet.sizing.plans.request import SizingRequest
from gpufleet.sizing.plans.result import SizingPlan, SizingResult
from gpufleet.sizing.plans.search import find_plans

__all__ = [
    "PlanOptions",
    "SizingPlan",
    "SizingRequest",
    "SizingResult",
    "build_sizing_document",
    "find_plans",
    "format_sizing_report",
    "load_sizing_schema",
    "parse_plan_options",
]
