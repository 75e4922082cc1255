"""The cost of a fleet and of a change to it.

``inputs`` reads resources from a preview, a state, or a program evaluated without an engine. ``pricing`` turns them
into bills: charges with the source and date of their price, and everything without a price. ``analysis`` compares
bills, checks policies and writes reports. ``api`` joins the three for the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpufleet.cost.analysis.actual import compare_with_bill, sum_billed_charges
    from gpufleet.cost.analysis.billed_node import OutOfUse, RegisteredNode
    from gpufleet.cost.analysis.budget import BudgetOption, build_budget_document, find_budget_options
    from gpufleet.cost.analysis.combined import CombinedDiff, ProjectDiff, combine_diffs
    from gpufleet.cost.analysis.diff import (
        CostDiff,
        CostDiffLine,
        PolicyResult,
        PolicyViolation,
        compare_bills,
    )
    from gpufleet.cost.analysis.estimate import CostEstimate, diff, estimate, price_age_notes
    from gpufleet.cost.analysis.policy import CostPolicy, check_policy, load_policy
    from gpufleet.cost.analysis.pool import PoolCost, group_charges_by_pool
    from gpufleet.cost.analysis.price_date import PriceDates
    from gpufleet.cost.analysis.reports import DIFF_FORMATS, ESTIMATE_FORMATS, render_diff, render_estimate
    from gpufleet.cost.analysis.reports.actual import build_actual_document, format_actual_table
    from gpufleet.cost.analysis.reports.budget import format_budget_table
    from gpufleet.cost.analysis.reports.combined import render_combined
    from gpufleet.cost.analysis.reports.json_document import (
        build_diff_document,
        build_estimate_document,
        load_diff_schema,
    )
    from gpufleet.cost.analysis.reports.purchase import format_break_even_table, format_what_if_table
    from gpufleet.cost.analysis.what_if import WhatIfRow, build_what_if_document, compare_purchase_kinds
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
        load_gate_policy,
    )
    from gpufleet.cost.inputs.automation import change_from_automation
    from gpufleet.cost.inputs.bill_export import stream_bill_files, stream_billed_charges
    from gpufleet.cost.inputs.bill_folder import list_bill_files
    from gpufleet.cost.inputs.default_region import parse_region_options
    from gpufleet.cost.inputs.gate_file import GateFileReader, refuse_links_in_repository
    from gpufleet.cost.inputs.graph import ResourceGraph
    from gpufleet.cost.inputs.program.evaluation import TIME_LIMIT_S, evaluate_program
    from gpufleet.cost.inputs.project_list import ProjectList, load_project_list
    from gpufleet.cost.inputs.stack_change import (
        StackChange,
        change_from_events,
        change_from_preview,
        resources_from_state,
    )
    from gpufleet.cost.inputs.stack_name import parse_stack_name
    from gpufleet.cost.inputs.terms import PurchaseTerms
    from gpufleet.cost.inputs.usage import ResourceUsage, UsageFile, load_usage_file
    from gpufleet.cost.money import HOURS_PER_MONTH, Range
    from gpufleet.cost.pricing.bill import Bill, Charge, UnpricedResource
    from gpufleet.cost.pricing.billing import price_resources
    from gpufleet.cost.pricing.commitments import (
        CommitmentBreakEven,
        build_break_even_document,
        compute_break_evens,
        load_commitments,
    )
    from gpufleet.cost.pricing.component import CostComponent, UnpricedComponent
    from gpufleet.cost.pricing.rates import PriceBook

__all__ = [
    "DIFF_FORMATS",
    "ESTIMATE_FORMATS",
    "HOURS_PER_MONTH",
    "TIME_LIMIT_S",
    "Bill",
    "BudgetOption",
    "Charge",
    "CombinedDiff",
    "CommitmentBreakEven",
    "CostComponent",
    "CostDiff",
    "CostDiffLine",
    "CostEstimate",
    "CostOptions",
    "CostPolicy",
    "GateFileReader",
    "OutOfUse",
    "PolicyResult",
    "PolicyViolation",
    "PoolCost",
    "PriceBook",
    "PriceDates",
    "ProjectDiff",
    "ProjectList",
    "PurchaseTerms",
    "Range",
    "RegisteredNode",
    "ResourceGraph",
    "ResourceUsage",
    "StackChange",
    "UnpricedComponent",
    "UnpricedResource",
    "UsageFile",
    "WhatIfRow",
    "build_actual_document",
    "build_break_even_document",
    "build_budget_document",
    "build_diff_document",
    "build_estimate_document",
    "build_what_if_document",
    "change_from_automation",
    "change_from_events",
    "change_from_preview",
    "check_policy",
    "combine_diffs",
    "compare_bills",
    "compare_purchase_kinds",
    "compare_with_bill",
    "compute_break_evens",
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
    "find_budget_options",
    "format_actual_table",
    "format_break_even_table",
    "format_budget_table",
    "format_what_if_table",
    "group_charges_by_pool",
    "list_bill_files",
    "load_commitments",
    "load_diff_schema",
    "load_gate_policy",
    "load_policy",
    "load_project_list",
    "load_usage_file",
    "parse_region_options",
    "parse_stack_name",
    "price_age_notes",
    "price_resources",
    "refuse_links_in_repository",
    "render_combined",
    "render_diff",
    "render_estimate",
    "resources_from_state",
    "stream_bill_files",
    "stream_billed_charges",
    "sum_billed_charges",
]

# The names of each module. Importing all of them takes longer than pricing a change.
NAMES_BY_MODULE = {
    "analysis.actual": (
        "compare_with_bill",
        "sum_billed_charges",
    ),
    "analysis.billed_node": (
        "OutOfUse",
        "RegisteredNode",
    ),
    "analysis.budget": (
        "BudgetOption",
        "build_budget_document",
        "find_budget_options",
    ),
    "analysis.combined": (
        "CombinedDiff",
        "ProjectDiff",
        "combine_diffs",
    ),
    "analysis.diff": (
        "CostDiff",
        "CostDiffLine",
        "PolicyResult",
        "PolicyViolation",
        "compare_bills",
    ),
    "analysis.estimate": (
        "CostEstimate",
        "diff",
        "estimate",
        "price_age_notes",
    ),
    "analysis.policy": (
        "CostPolicy",
        "check_policy",
        "load_policy",
    ),
    "analysis.pool": (
        "PoolCost",
        "group_charges_by_pool",
    ),
    "analysis.price_date": ("PriceDates",),
    "analysis.reports": (
        "DIFF_FORMATS",
        "ESTIMATE_FORMATS",
        "render_diff",
        "render_estimate",
    ),
    "analysis.reports.actual": (
        "build_actual_document",
        "format_actual_table",
    ),
    "analysis.reports.budget": ("format_budget_table",),
    "analysis.reports.combined": ("render_combined",),
    "analysis.reports.json_document": (
        "build_diff_document",
        "build_estimate_document",
        "load_diff_schema",
    ),
    "analysis.reports.purchase": (
        "format_break_even_table",
        "format_what_if_table",
    ),
    "analysis.what_if": (
        "WhatIfRow",
        "build_what_if_document",
        "compare_purchase_kinds",
    ),
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
        "load_gate_policy",
    ),
    "inputs.automation": ("change_from_automation",),
    "inputs.bill_export": ("stream_bill_files", "stream_billed_charges"),
    "inputs.bill_folder": ("list_bill_files",),
    "inputs.default_region": ("parse_region_options",),
    "inputs.gate_file": ("GateFileReader", "refuse_links_in_repository"),
    "inputs.graph": ("ResourceGraph",),
    "inputs.program.evaluation": (
        "TIME_LIMIT_S",
        "evaluate_program",
    ),
    "inputs.project_list": (
        "ProjectList",
        "load_project_list",
    ),
    "inputs.stack_change": (
        "StackChange",
        "change_from_events",
        "change_from_preview",
        "resources_from_state",
    ),
    "inputs.stack_name": ("parse_stack_name",),
    "inputs.terms": ("PurchaseTerms",),
    "inputs.usage": (
        "ResourceUsage",
        "UsageFile",
        "load_usage_file",
    ),
    "money": (
        "HOURS_PER_MONTH",
        "Range",
    ),
    "pricing.bill": (
        "Bill",
        "Charge",
        "UnpricedResource",
    ),
    "pricing.billing": ("price_resources",),
    "pricing.commitments": (
        "CommitmentBreakEven",
        "build_break_even_document",
        "compute_break_evens",
        "load_commitments",
    ),
    "pricing.component": (
        "CostComponent",
        "UnpricedComponent",
    ),
    "pricing.rates": ("PriceBook",),
}


def __getattr__(name: str) -> Any:
    """Import a module when one of its names is used."""
    for module, names in NAMES_BY_MODULE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
