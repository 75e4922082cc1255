"""A comparison in each of its formats."""

from __future__ import annotations

import json

from markupsafe import Markup

from gpufleet import boundary
from gpufleet.page import render_page
from gpufleet.sizing.compare import plots, report
from gpufleet.sizing.compare.comparison import AcceleratorComparison
from gpufleet.sizing.compare.document import build_comparison_document


def render_comparison(
    comparison: AcceleratorComparison, format_name: str, plot_names: tuple[str, ...] = ()
) -> str:
    """Return a comparison as table, JSON, one plot (svg), or a page with plots (html)."""
    if format_name == "svg":
        return plots.draw_svg(comparison, plot_names[0] if plot_names else _default_plot(comparison))
    if format_name == "html":
        return render_html_page(comparison, plot_names)
    if format_name == "json":
        return json.dumps(build_comparison_document(comparison), indent=2)
    return report.format_comparison_report(boundary.make_values_printable(comparison))


def render_html_page(comparison: AcceleratorComparison, plot_names: tuple[str, ...] = ()) -> str:
    """Return a self-contained HTML page with the requested plots, or all possible ones, and the table."""
    drawn = {name: plots.draw_svg(comparison, name) for name in plot_names} or plots.draw_possible_plots(
        comparison
    )
    work = comparison.workload
    return render_page(
        "sizing/data/compare.html.j2",
        headline="Accelerators compared" + (f": {work.model.name}" if work else ""),
        plots={name: Markup(text) for name, text in drawn.items()},  # noqa: S704 - drawn by the line above
        report=report,
        workload=report.format_workload(work) if work else "",
        speeds=report.list_workload_rows(comparison),
        facts=report.list_fact_rows(comparison),
        unplaced=report.list_unplaced(comparison),
        sources=[
            (compared.accelerator.name, compared.accelerator.source, compared.accelerator.as_of)
            for compared in comparison.accelerators
        ],
        prices=[
            (compared.accelerator.name, compared.cheapest_device_price)
            for compared in comparison.accelerators
            if compared.cheapest_device_price
        ],
    )


def _default_plot(comparison: AcceleratorComparison) -> str:
    return "tokens" if comparison.workload else "roofline"
