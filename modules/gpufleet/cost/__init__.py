"""What the fleet costs and what a change to it would cost.

In come resources (from a preview, a state, or the project's program evaluated without an engine) and the
catalogue's prices. Out come a bill for each side (charges with their price's source and date, and everything
that could not be priced), the difference between two bills, a policy's verdict, and reports of these.
"""

from __future__ import annotations

from gpufleet.cost.answers import (
    Estimate,
    diff,
    diff_against,
    diff_preview,
    estimate,
    estimate_stack,
    price_notes,
)
from gpufleet.cost.change import CostDiff, Line, PolicyResult, Violation, compare
from gpufleet.cost.demand import Bill, Charge, Unpriced
from gpufleet.cost.document import diff_document, estimate_document, schema
from gpufleet.cost.evaluation import evaluate
from gpufleet.cost.money import HOURS_PER_MONTH, Range
from gpufleet.cost.policy import Policy, judge, load_policy
from gpufleet.cost.pools import Pool, by_pool
from gpufleet.cost.pricing import price
from gpufleet.cost.rates import PriceBook
from gpufleet.cost.reports import render_diff, render_estimate
from gpufleet.cost.sides import Sides, resources_from_preview, resources_from_state

__all__ = [
    "HOURS_PER_MONTH",
    "Bill",
    "Charge",
    "CostDiff",
    "Estimate",
    "Line",
    "Policy",
    "PolicyResult",
    "Pool",
    "PriceBook",
    "Range",
    "Sides",
    "Unpriced",
    "Violation",
    "by_pool",
    "compare",
    "diff",
    "diff_against",
    "diff_document",
    "diff_preview",
    "estimate",
    "estimate_document",
    "estimate_stack",
    "evaluate",
    "judge",
    "load_policy",
    "price",
    "price_notes",
    "render_diff",
    "render_estimate",
    "resources_from_preview",
    "resources_from_state",
    "schema",
]
