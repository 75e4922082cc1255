"""A comparison in each of its formats."""

from __future__ import annotations

import json

from gpufleet import boundary
from gpufleet.sizing.compare import plots
from gpufleet.sizing.compare.comparison import AcceleratorComparison
from gpufleet.sizing.compare.document import build_comparison_document
from gpufleet.sizing.compare.report import format_comparison_report
from gpufleet.sizing.data_file import DATA_DIR

PAGE = "compare.html.j2"


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
    return format_comparison_report(boundary.make_values_printable(comparison))


def render_html_page(comparison: AcceleratorComparison, plot_names: tuple[str, ...] = ()) -> str:
    """Return a self-contained HTML page with the requested plots, or all possible ones, and the table."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    drawn = {name: plots.draw_svg(comparison, name) for name in plot_names} or plots.draw_possible_plots(
        comparison
    )
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(
        (DATA_DIR / PAGE).read_text(encoding="utf-8")
    )
    work = comparison.workload
    return template.render(
        headline="Accelerators compared" + (f": {work.model.name}" if work else ""),
        plots={name: Markup(text) for name, text in drawn.items()},  # noqa: S704 - drawn by the line above
        figures=format_comparison_report(comparison),
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
