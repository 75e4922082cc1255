"""What the fleet costs and what a change to it would cost.

In come resources (from a preview, a state, or the project's program evaluated without an engine) and the
catalogue's prices. Out come a bill for each side (charges with their price's source and date, and everything
that could not be priced), the difference between two bills, a policy's verdict, and reports of these.
"""

from __future__ import annotations

from gpufleet.cost.analysis.budget import Buy, buys, buys_document
from gpufleet.cost.analysis.diff import CostDiff, Line, PolicyResult, Violation, compare
from gpufleet.cost.analysis.estimate import Estimate, diff, estimate, price_notes
from gpufleet.cost.analysis.policy import Policy, judge, load_policy
from gpufleet.cost.analysis.pool import Pool, by_pool
from gpufleet.cost.analysis.price_date import PriceDates
from gpufleet.cost.analysis.reports import DIFF_FORMATS, render_diff, render_estimate
from gpufleet.cost.analysis.reports.budget import buys_table
from gpufleet.cost.analysis.reports.json_document import diff_document, estimate_document, schema
from gpufleet.cost.analysis.reports.purchase import break_even_table, what_if_table
from gpufleet.cost.analysis.what_if import WhatIf, what_if, what_if_document
from gpufleet.cost.api import (
    Asked,
    diff_against,
    diff_automation,
    diff_events,
    diff_preview,
    diff_prices,
    diff_state,
    estimate_stack,
    estimate_state,
)
from gpufleet.cost.inputs.automation import from_automation
from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.program.evaluation import TIME_LIMIT_S, evaluate
from gpufleet.cost.inputs.stack_change import (
    Sides,
    resources_from_events,
    resources_from_preview,
    resources_from_state,
)
from gpufleet.cost.inputs.terms import Terms
from gpufleet.cost.inputs.usage import Usage, UsageFile, load_usage
from gpufleet.cost.money import HOURS_PER_MONTH, Range
from gpufleet.cost.pricing.bill import Bill, Charge, UnpricedResource
from gpufleet.cost.pricing.billing import price_resources
from gpufleet.cost.pricing.commitments import BreakEven, break_even, break_even_document
from gpufleet.cost.pricing.commitments import load_commitments as load_commitments
from gpufleet.cost.pricing.component import CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.rates import PriceBook

__all__ = [
    "DIFF_FORMATS",
    "HOURS_PER_MONTH",
    "TIME_LIMIT_S",
    "Asked",
    "Bill",
    "BreakEven",
    "Buy",
    "Charge",
    "CostComponent",
    "CostDiff",
    "Estimate",
    "Graph",
    "Line",
    "PartContext",
    "Policy",
    "PolicyResult",
    "Pool",
    "PriceBook",
    "PriceDates",
    "Range",
    "Sides",
    "Terms",
    "UnpricedComponent",
    "UnpricedResource",
    "Usage",
    "UsageFile",
    "Violation",
    "WhatIf",
    "break_even",
    "break_even_document",
    "break_even_table",
    "buys",
    "buys_document",
    "buys_table",
    "by_pool",
    "compare",
    "diff",
    "diff_against",
    "diff_automation",
    "diff_document",
    "diff_events",
    "diff_preview",
    "diff_prices",
    "diff_state",
    "estimate",
    "estimate_document",
    "estimate_stack",
    "estimate_state",
    "evaluate",
    "from_automation",
    "judge",
    "load_commitments",
    "load_policy",
    "load_usage",
    "price_notes",
    "price_resources",
    "render_diff",
    "render_estimate",
    "resources_from_events",
    "resources_from_preview",
    "resources_from_state",
    "schema",
    "what_if",
    "what_if_document",
    "what_if_table",
]
