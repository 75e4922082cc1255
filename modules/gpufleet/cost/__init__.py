"""The cost of a fleet and of a change to it.

``inputs`` reads resources from a preview, a state, or a program evaluated without an engine. ``pricing`` turns them
into bills: charges with the source and date of their price, and everything without a price. ``analysis`` compares
bills, checks policies and writes reports. ``api`` joins the three for the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.lazy_names import make_module_getattr

if TYPE_CHECKING:
    from gpufleet.cost.analysis.diff import CostDiff
    from gpufleet.cost.analysis.estimate import CostEstimate, diff, estimate
    from gpufleet.cost.analysis.policy import CostPolicy, load_policy
    from gpufleet.cost.analysis.reports import render_diff, render_estimate
    from gpufleet.cost.analysis.reports.combined import render_combined
    from gpufleet.cost.api import (
        CostOptions,
        diff_from_automation,
        diff_from_event_log,
        diff_from_preview,
        diff_projects_against_git_ref,
        diff_stack_against_git_ref,
        diff_stack_against_state,
        diff_stack_between_price_dates,
        estimate_exported_state,
        estimate_stack,
    )
    from gpufleet.cost.inputs.program.evaluation import evaluate_program
    from gpufleet.cost.inputs.program.node_packages import find_node
    from gpufleet.cost.inputs.project_list import load_project_list
    from gpufleet.cost.inputs.stack_change import StackChange
    from gpufleet.cost.inputs.usage import ResourceUsage, UsageFile, load_usage_file
    from gpufleet.cost.pricing.bill import Bill
    from gpufleet.cost.pricing.billing import price_resources
    from gpufleet.cost.pricing.commitments import load_commitments
    from gpufleet.cost.pricing.component import CostComponent, UnpricedComponent
    from gpufleet.cost.pricing.rates import PriceBook

__all__ = [
    "Bill",
    "CostComponent",
    "CostDiff",
    "CostEstimate",
    "CostOptions",
    "CostPolicy",
    "PriceBook",
    "ResourceUsage",
    "StackChange",
    "UnpricedComponent",
    "UsageFile",
    "diff",
    "diff_from_automation",
    "diff_from_event_log",
    "diff_from_preview",
    "diff_projects_against_git_ref",
    "diff_stack_against_git_ref",
    "diff_stack_against_state",
    "diff_stack_between_price_dates",
    "estimate",
    "estimate_exported_state",
    "estimate_stack",
    "evaluate_program",
    "find_node",
    "load_commitments",
    "load_policy",
    "load_project_list",
    "load_usage_file",
    "price_resources",
    "render_combined",
    "render_diff",
    "render_estimate",
]

# The names of each module. Importing all of them takes longer than pricing a change.
NAMES_BY_MODULE = {
    "analysis.diff": ("CostDiff",),
    "analysis.estimate": ("CostEstimate", "diff", "estimate"),
    "analysis.policy": ("CostPolicy", "load_policy"),
    "analysis.reports": ("render_diff", "render_estimate"),
    "analysis.reports.combined": ("render_combined",),
    "api": (
        "CostOptions",
        "diff_from_automation",
        "diff_from_event_log",
        "diff_from_preview",
        "diff_projects_against_git_ref",
        "diff_stack_against_git_ref",
        "diff_stack_against_state",
        "diff_stack_between_price_dates",
        "estimate_exported_state",
        "estimate_stack",
    ),
    "inputs.program.evaluation": ("evaluate_program",),
    "inputs.program.node_packages": ("find_node",),
    "inputs.project_list": ("load_project_list",),
    "inputs.stack_change": ("StackChange",),
    "inputs.usage": ("ResourceUsage", "UsageFile", "load_usage_file"),
    "pricing.bill": ("Bill",),
    "pricing.billing": ("price_resources",),
    "pricing.commitments": ("load_commitments",),
    "pricing.component": ("CostComponent", "UnpricedComponent"),
    "pricing.rates": ("PriceBook",),
}

__getattr__ = make_module_getattr(__name__, NAMES_BY_MODULE)
