"""The cumulative cost of buying and renting, as a plot and as a page."""

from __future__ import annotations

from markupsafe import Markup

from gpufleet.cost.analysis.reports.table import LEFT
from gpufleet.cost.analysis.tco.cloud import CloudAlternative
from gpufleet.cost.analysis.tco.comparison import RackCloudComparison
from gpufleet.cost.analysis.tco.report import (
    build_tco_tables,
    format_payback_headline,
    list_answers,
    list_tco_notes,
)
from gpufleet.page import ChartLine, ChartMark, draw_line_chart, render_page

MOST_TICKS = 8


def draw_cumulative_cost_svg(comparison: RackCloudComparison) -> Markup:
    """Draw cumulative cost by month, with the break-even month."""
    rack, cloud = comparison.rack, comparison.cloud
    months, bought, rented = zip(*comparison.cumulative_usd_by_month(), strict=True)
    terms = (
        f"{cloud.region}, {cloud.purchase.replace('_', ' ')}, price of {cloud.price.as_of or 'unknown date'}"
    )
    lines = [
        ChartLine(f"own {rack.name}", list(zip(months, bought, strict=True))),
        ChartLine(f"rent {cloud.count} x {cloud.machine}, {terms}", list(zip(months, rented, strict=True))),
    ]
    step = 6 * -(-months[-1] // (6 * MOST_TICKS)) or 1
    mark = None
    if comparison.break_even_month is not None and comparison.is_paid_back_within_life:
        mark = ChartMark(comparison.break_even_month, f"paid for in month {comparison.break_even_month:.1f}")
    return draw_line_chart(
        lines,
        [(month, str(month)) for month in months[::step]],
        x_title=f"months since purchase, in use {comparison.utilisation:.0%} of the time",
        y_title="cumulated cost (USD)",
        mark=mark,
    )


def render_tco_html(comparison: RackCloudComparison, alternatives: list[CloudAlternative]) -> str:
    """Return one self-contained HTML page: headline, plot and figures."""
    return render_page(
        "cost/data/tco.html.j2",
        rack=comparison.rack.name,
        headline=format_payback_headline(comparison),
        answers=list_answers(comparison),
        plot=draw_cumulative_cost_svg(comparison),
        tables=build_tco_tables(comparison, alternatives),
        left=LEFT,
        notes=list_tco_notes(comparison, alternatives),
    )
