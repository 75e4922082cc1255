"""Reports of an estimate or a difference: table, markdown, JSON, HTML, JUnit, FOCUS CSV."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from gpufleet.boundary import make_values_printable
from gpufleet.cost.analysis.diff import CostDiff
from gpufleet.cost.analysis.estimate import CostEstimate
from gpufleet.cost.analysis.reports import focus, html_page, junit, markdown, table
from gpufleet.cost.analysis.reports.json_document import build_diff_document, build_estimate_document

DIFF_FORMATS: dict[str, Callable[[CostDiff], str]] = {
    "table": table.render_diff_table,
    "markdown": markdown.render_markdown,
    "json": lambda diff: json.dumps(build_diff_document(diff), indent=2),
    "html": html_page.render_diff_html,
    "junit": junit.render_junit_xml,
}
ESTIMATE_FORMATS: dict[str, Callable[[CostEstimate], str]] = {
    "table": table.render_estimate_table,
    "json": lambda estimate: json.dumps(build_estimate_document(estimate), indent=2),
    "focus": focus.render_focus_csv,
}


def render_diff(diff: CostDiff, format_name: str, *, show_skipped: bool = False) -> str:
    """Return a difference in one of ``DIFF_FORMATS``; text for people has only printable names."""
    if not show_skipped:
        diff = diff.without_skipped_resources()
    return DIFF_FORMATS[format_name](diff if format_name == "json" else make_values_printable(diff))


def render_estimate(estimate: CostEstimate, format_name: str, *, show_skipped: bool = False) -> str:
    """Return an estimate in one of ``ESTIMATE_FORMATS``."""
    if not show_skipped:
        estimate = replace(estimate, bill=estimate.bill.without_skipped_resources())
    return ESTIMATE_FORMATS[format_name](
        estimate if format_name == "json" else make_values_printable(estimate)
    )
