"""The cumulative cost of buying and renting, as a plot and as a page."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from gpufleet.cost.analysis.tco.cloud import CloudAlternative
from gpufleet.cost.analysis.tco.comparison import RackCloudComparison
from gpufleet.cost.analysis.tco.report import format_payback_headline, format_tco_table
from gpufleet.extra import draw_or_explain

# Okabe and Ito's palette, distinct for colour-blind readers too; dashes repeat the difference.
RACK, RENTED = "#0072B2", "#D55E00"


def draw_cumulative_cost_svg(comparison: RackCloudComparison) -> str:
    """Draw cumulative cost by month, with the break-even month."""
    import vl_convert

    svg_text: str = vl_convert.vegalite_to_svg(build_cumulative_cost_chart(comparison).to_dict())
    return svg_text


def build_cumulative_cost_chart(comparison: RackCloudComparison) -> Any:
    """Return the plot as an Altair chart."""
    import altair as alt

    names = [f"own {comparison.rack.name}", f"rent {comparison.cloud.count} x {comparison.cloud.machine}"]
    rows = [
        {"month": month, "usd": money, "option": name}
        for month, *both in comparison.cumulative_usd_by_month()
        for name, money in zip(names, both, strict=True)
    ]
    colour = alt.Scale(domain=names, range=[RACK, RENTED])
    legend = alt.Legend(orient="bottom", labelLimit=320, labelFontSize=12, symbolSize=400)
    months = alt.Scale(domain=[0, round(comparison.rack.months_of_use)], nice=False)
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("month:Q", title="months since purchase", scale=months),
            y=alt.Y("usd:Q", title="cumulated cost (USD)", axis=alt.Axis(format=",.0f")),
            color=alt.Color("option:N", title=None, scale=colour, legend=legend),
            strokeDash=alt.StrokeDash("option:N", legend=None, scale=alt.Scale(domain=names, range=[[1, 0], [7, 4]])),
        )
    )  # fmt: skip
    layers = [lines, *_break_even_layers(alt, comparison)]
    subtitle = (
        f"{comparison.cloud.region}, {comparison.cloud.purchase.replace('_', ' ')}, "
        f"{comparison.utilisation:.0%} of the time; "
        f"price of {comparison.cloud.price.as_of or 'unknown date'}"
    )
    title = alt.TitleParams(
        format_payback_headline(comparison),
        subtitle=subtitle,
        anchor="start",
        fontSize=13,
        subtitleColor="#444444",
    )
    plot = alt.layer(*layers).properties(width=680, height=340, title=title)
    return plot.configure(font="sans-serif", background="white").configure_axis(
        labelFontSize=12, titleFontSize=12
    )


def _break_even_layers(alt: Any, comparison: RackCloudComparison) -> list[Any]:
    """Return layers that mark the break-even month, none outside the plot."""
    month = comparison.break_even_month
    if month is None or not comparison.is_paid_back_within_life:
        return []
    crossing = {
        "month": month,
        "usd": month * comparison.cloud_usd_per_month,
        "label": f"paid for in month {month:.1f}",
    }
    base = alt.Chart(alt.Data(values=[crossing])).encode(x="month:Q")
    is_late = month > comparison.rack.months_of_use / 2
    label_options = {"align": "right", "dx": -8} if is_late else {"align": "left", "dx": 8}
    return [
        base.mark_rule(color="#666666", strokeDash=[3, 3]),
        base.mark_point(size=80, filled=True, opacity=1, color="#222222").encode(y="usd:Q"),
        base.mark_text(fontSize=13, fontWeight="bold", **label_options).encode(
            text="label:N", y=alt.value(12)
        ),
    ]


def render_tco_html(comparison: RackCloudComparison, alternatives: list[CloudAlternative]) -> str:
    """Return one self-contained HTML page: headline, plot and figures."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    text = (files("gpufleet.cost") / "data" / "tco.html.j2").read_text(encoding="utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(text)
    plot = Markup(draw_or_explain(draw_cumulative_cost_svg, comparison))  # noqa: S704 - drawn here, not given by a user
    return template.render(
        headline=format_payback_headline(comparison),
        plot=plot,
        figures=format_tco_table(comparison, alternatives),
    )
