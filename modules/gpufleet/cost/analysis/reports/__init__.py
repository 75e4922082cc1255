"""Reports of an estimate or a difference: table, markdown, JSON, HTML, JUnit, FOCUS CSV."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from gpufleet.boundary import make_values_printable

if TYPE_CHECKING:
    from gpufleet.cost.analysis.diff import CostDiff
    from gpufleet.cost.analysis.estimate import CostEstimate

# The module and the function of each format; only the wanted one is imported.
DIFF_FORMATS = {
    "table": ("table", "render_diff_table"),
    "markdown": ("markdown", "render_markdown"),
    "json": ("json_document", "render_diff_json"),
    "html": ("html_page", "render_diff_html"),
    "junit": ("junit", "render_junit_xml"),
}
ESTIMATE_FORMATS = {
    "table": ("table", "render_estimate_table"),
    "json": ("json_document", "render_estimate_json"),
    "focus": ("focus", "render_focus_csv"),
}


def render_diff(diff: CostDiff, format_name: str, *, show_skipped: bool = False) -> str:
    """Return a difference in one of ``DIFF_FORMATS``; text for people has only printable names."""
    if not show_skipped:
        diff = diff.without_skipped_resources()
    render: Callable[[CostDiff], str] = _import_renderer(*DIFF_FORMATS[format_name])
    return render(diff if format_name == "json" else make_values_printable(diff))


def render_estimate(estimate: CostEstimate, format_name: str, *, show_skipped: bool = False) -> str:
    """Return an estimate in one of ``ESTIMATE_FORMATS``."""
    if not show_skipped:
        estimate = replace(estimate, bill=estimate.bill.without_skipped_resources())
    render: Callable[[CostEstimate], str] = _import_renderer(*ESTIMATE_FORMATS[format_name])
    return render(estimate if format_name == "json" else make_values_printable(estimate))


def _import_renderer(module: str, function: str) -> Callable[..., str]:
    renderer: Callable[..., str] = getattr(import_module(f"{__name__}.{module}"), function)
    return renderer
