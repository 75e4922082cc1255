"""Plots as SVG text, drawn by Vega-Lite without a browser: one function per question."""

from __future__ import annotations

from typing import Any

from gpufleet.boundary import Json
from gpufleet.extra import draw_or_explain

# Okabe and Ito's palette: told apart by colour-blind readers too. Shape or text repeats what colour says.
BEFORE, AFTER = "#999999", "#0072B2"
OUTCOME_COLOURS = {"pass": "#0072B2", "warn": "#E69F00", "fail": "#D55E00", "not_run": "#999999"}
OUTCOME_SHAPES = {"pass": "circle", "warn": "triangle-up", "fail": "cross", "not_run": "square"}


def draw_plots(nodes: list[Json], burn_in_reports: list[Json], cost_change: Json | None) -> dict[str, str]:
    """Draw what the data allows: ``money`` needs a change, ``measured`` needs burn-in reports."""
    drawn = {}
    if cost_change is not None:
        drawn["money"] = draw_or_explain(plot_cost_by_resource, cost_change)
    if list_burn_in_measurements(burn_in_reports):
        drawn["measured"] = draw_or_explain(
            plot_measurements_by_node, burn_in_reports, [node["name"] for node in nodes]
        )
    return drawn


def plot_cost_by_resource(cost_change: Json) -> str:
    """Draw USD per month of the resources that can be seen at this scale, before and after, side by side."""
    import altair as alt

    bars = [
        {
            "resource": f"{line['name']} {line['type'].split(':')[-1]}",
            "when": when,
            "usd_per_month": hourly * line["hours_per_month"],
        }
        for line in cost_change["resources"]
        for when, hourly in (("before", line["before_usd_per_hour"]), ("after", line["after_usd_per_hour"]))
        if hourly
    ]
    visible = max((bar["usd_per_month"] for bar in bars), default=0) / 200
    rows = [bar for bar in bars if bar["usd_per_month"] >= visible]  # the table has the rest
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            y=alt.Y("resource:N", title=None, sort="-x", axis=alt.Axis(labelLimit=260)),
            yOffset=alt.YOffset("when:N", sort=["before", "after"]),
            x=alt.X("usd_per_month:Q", title="USD per month", axis=alt.Axis(format=",.0f", tickCount=6)),
            color=alt.Color(
                "when:N", title=None, scale=alt.Scale(domain=["before", "after"], range=[BEFORE, AFTER])
            ),
        )
        .properties(width=560, height={"step": 11})
    )
    return render_chart_as_svg(chart)


def plot_measurements_by_node(burn_in_reports: list[Json], node_names: list[str]) -> str:
    """Draw every measured check as its own strip: one mark a node, thresholds as lines."""
    import altair as alt

    points = list_burn_in_measurements(burn_in_reports)
    panels = []
    for check in sorted({point["check"] for point in points}):
        rows = [point for point in points if point["check"] == check]
        if 2 * len(rows) >= len(burn_in_reports):  # few nodes measured it: the table is enough
            panels.append(build_strip_chart(alt, check, rows, node_names))
    return render_chart_as_svg(alt.vconcat(*panels, spacing=14))


def list_burn_in_measurements(burn_in_reports: list[Json]) -> list[Json]:
    """Flatten reports to one row for each check that measured a number."""
    return [
        {
            "node": report["node"],
            "check": check["name"],
            "measured": check["measured"],
            "unit": check["unit"] or "",
            "threshold": check["threshold"],
            "outcome": check["outcome"],
        }
        for report in burn_in_reports
        for check in report["checks"]
        if isinstance(check["measured"], int | float) and not isinstance(check["measured"], bool)
    ]


def build_strip_chart(alt: Any, check_name: str, rows: list[Json], node_names: list[str]) -> Any:
    outcomes, shapes = list(OUTCOME_COLOURS), list(OUTCOME_SHAPES.values())
    measured = {row["node"] for row in rows}
    order = [name for name in node_names if name in measured]
    title = f"{check_name} [{rows[0]['unit']}]" if rows[0]["unit"] else check_name
    marks = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(size=55, filled=True, opacity=0.9)
        .encode(
            x=alt.X(
                "node:N",
                title=None,
                sort=order,
            ),
            y=alt.Y("measured:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=4)),
            color=alt.Color(
                "outcome:N",
                title="outcome",
                scale=alt.Scale(domain=outcomes, range=list(OUTCOME_COLOURS.values())),
            ),
            shape=alt.Shape(
                "outcome:N",
                scale=alt.Scale(domain=outcomes, range=shapes),
            ),
        )
        .properties(width=640, height=70, title=alt.TitleParams(title, anchor="start", fontSize=12))
    )
    limits = sorted({row["threshold"] for row in rows if isinstance(row["threshold"], int | float)})
    if not limits:
        return marks
    rule = alt.Chart(alt.Data(values=[{"limit": limit} for limit in limits]))
    return marks + rule.mark_rule(strokeDash=[4, 3], color="#444444").encode(y="limit:Q")


def render_chart_as_svg(chart: Any) -> str:
    """Render a chart to SVG text, fit to be put inside a page."""
    import vl_convert

    styled = chart.configure(font="sans-serif", background="transparent").configure_view(stroke="#dddddd")
    svg: str = vl_convert.vegalite_to_svg(styled.to_dict())
    return svg
