"""What each way has cost by each month, as a plot and as a page of its own."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from gpufleet.cost.analysis.tco.cloud import Cloud
from gpufleet.cost.analysis.tco.comparison import Comparison
from gpufleet.cost.analysis.tco.report import headline, table

# Okabe and Ito's palette: told apart by colour-blind readers too; the dashes say it again.
OWN, RENTED = "#0072B2", "#D55E00"


def svg(of: Comparison) -> str:
    """Draw cumulated cost over the months of use, with the month in which the lines cross."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(chart(of).to_dict())
    return drawn


def chart(of: Comparison) -> Any:
    """Return the plot's specification."""
    import altair as alt

    names = [f"own {of.own.name}", f"rent {of.cloud.count} x {of.cloud.machine}"]
    rows = [
        {"month": month, "usd": money, "way": name}
        for month, *both in of.cumulated()
        for name, money in zip(names, both, strict=True)
    ]
    colour = alt.Scale(domain=names, range=[OWN, RENTED])
    legend = alt.Legend(orient="bottom", labelLimit=320, labelFontSize=12, symbolSize=400)
    months = alt.Scale(domain=[0, round(of.own.months)], nice=False)
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("month:Q", title="months since purchase", scale=months),
            y=alt.Y("usd:Q", title="cumulated cost (USD)", axis=alt.Axis(format=",.0f")),
            color=alt.Color("way:N", title=None, scale=colour, legend=legend),
            strokeDash=alt.StrokeDash("way:N", legend=None, scale=alt.Scale(domain=names, range=[[1, 0], [7, 4]])),
        )
    )  # fmt: skip
    layers = [lines, *_crossing(alt, of)]
    subtitle = (
        f"{of.cloud.region}, {of.cloud.purchase.replace('_', ' ')}, {of.utilisation:.0%} of the time; "
        f"price of {of.cloud.price.as_of or 'unknown date'}"
    )
    title = alt.TitleParams(
        headline(of), subtitle=subtitle, anchor="start", fontSize=13, subtitleColor="#444444"
    )
    plot = alt.layer(*layers).properties(width=680, height=340, title=title)
    return plot.configure(font="sans-serif", background="white").configure_axis(
        labelFontSize=12, titleFontSize=12
    )


def _crossing(alt: Any, of: Comparison) -> list[Any]:
    """Mark the break-even month where the plot reaches it."""
    month = of.break_even_month
    if month is None or not of.within_life:
        return []
    at = {"month": month, "usd": month * of.cloud_usd_per_month, "label": f"paid for in month {month:.1f}"}
    there = alt.Chart(alt.Data(values=[at])).encode(x="month:Q")
    late = month > of.own.months / 2
    side = {"align": "right", "dx": -8} if late else {"align": "left", "dx": 8}
    return [
        there.mark_rule(color="#666666", strokeDash=[3, 3]),
        there.mark_point(size=80, filled=True, opacity=1, color="#222222").encode(y="usd:Q"),
        there.mark_text(fontSize=13, fontWeight="bold", **side).encode(text="label:N", y=alt.value(12)),
    ]


def page(of: Comparison, others: list[Cloud]) -> str:
    """Return one self-contained HTML page: the sentence, the plot, the figures."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    text = (files("gpufleet.cost") / "data" / "ownership.html.j2").read_text(encoding="utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(text)
    plot = Markup(svg(of))  # noqa: S704 - drawn by the line above, not given by a user
    return template.render(headline=headline(of), plot=plot, figures=table(of, others))
