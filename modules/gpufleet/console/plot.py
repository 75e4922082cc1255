"""The charts of the fleet report: one function per question."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from gpufleet.boundary import Json
from gpufleet.page import BarGroup, draw_bar_chart

# Shape or text repeats what colour says.
OUTCOME_COLOURS = {"pass": "c1", "warn": "c2", "fail": "c5", "not_run": "c0"}
OUTCOME_SHAPES = {
    "pass": "M-5,0A5,5,0,1,0,5,0A5,5,0,1,0,-5,0Z",
    "warn": "M0,-7L7,6L-7,6Z",
    "fail": "M-6,-2H-2V-6H2V-2H6V2H2V6H-2V2H-6Z",
    "not_run": "M-4,-4H4V4H-4Z",
}
WIDTH, STRIP_HEIGHT = 800, 60


def draw_plots(nodes: list[Json], burn_in_reports: list[Json], cost_change: Json | None) -> dict[str, Markup]:
    """Draw what the data allows: ``money`` needs a change, ``measured`` needs burn-in reports."""
    drawn = {}
    if cost_change is not None and (groups := list_costs_by_resource(cost_change)):
        drawn["money"] = draw_bar_chart(groups, {"before": "c0", "after": "c1"}, "USD a month")
    if strips := plot_measurements_by_node(burn_in_reports, [node["name"] for node in nodes]):
        drawn["measured"] = strips
    return drawn


def list_costs_by_resource(cost_change: Json) -> list[BarGroup]:
    """Return USD per month before and after of the resources that can be seen at this scale, the dearest first."""
    costs: dict[str, dict[str, float]] = {}
    for line in cost_change["resources"]:
        sums = costs.setdefault(f"{line['name']} {line['type'].split(':')[-1]}", {})
        for time in ("before", "after"):
            hourly = line[f"{time}_usd_per_hour"] or 0.0
            sums[time] = sums.get(time, 0.0) + hourly * line["hours_per_month"]
    visible = max((max(sums.values()) for sums in costs.values()), default=0.0) / 200
    groups = [BarGroup(name, sums) for name, sums in costs.items() if max(sums.values()) >= visible > 0]
    return sorted(groups, key=lambda group: -max(group.values.values()))  # the table has the rest


def plot_measurements_by_node(burn_in_reports: list[Json], node_names: list[str]) -> Markup:
    """Draw every check that half of the nodes measured as its own strip: one mark a node, thresholds as lines."""
    points = list_burn_in_measurements(burn_in_reports)
    strips = []
    for check in sorted({point["check"] for point in points}):
        rows = {point["node"]: point for point in points if point["check"] == check}
        if 2 * len(rows) >= len(burn_in_reports):  # few nodes measured it: the table is enough
            ordered = [rows[name] for name in node_names if name in rows]
            strips.append(draw_strip(check, ordered))
    return Markup("").join(strips)


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


def draw_strip(check_name: str, rows: Sequence[Json]) -> Markup:
    """Draw one mark for each node on an axis from 0; marks that are not a pass have their node's name."""
    limits = sorted({row["threshold"] for row in rows if isinstance(row["threshold"], int | float)})
    values = [row["measured"] for row in rows]
    top = max(*values, *limits, 0) or 1.0
    step = WIDTH / len(rows)

    def height(value: float) -> float:
        return STRIP_HEIGHT - 12 - max(value, 0) / top * (STRIP_HEIGHT - 24)

    line = Markup('<line class="{}" x1="0" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/>')
    parts = [line.format("base", WIDTH, y=height(0))]
    parts += [line.format("limit", WIDTH, y=height(limit)) for limit in limits]
    for at, row in enumerate(rows):
        x, y = (at + 0.5) * step, height(row["measured"])
        mark = Markup(
            '<path class="{}" transform="translate({:.1f},{:.1f})" d="{}"><title>{}: {:g}</title></path>'
        )
        shape, css = OUTCOME_SHAPES[row["outcome"]], OUTCOME_COLOURS[row["outcome"]]
        parts.append(mark.format(css, x, y, shape, row["node"], row["measured"]))
        if row["outcome"] in {"warn", "fail"}:
            is_right = x > WIDTH / 2
            text = Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
            parts.append(
                text.format(
                    x - 10 if is_right else x + 10, y + 4, "end" if is_right else "start", row["node"]
                )
            )
    unit = f" {rows[0]['unit']}" if rows[0]["unit"] else ""
    scale = (
        f"{min(values):,g} to {max(values):,g}{unit}"
        if min(values) < max(values)
        else f"{values[0]:,g}{unit}"
    )
    bounds = "".join(f", threshold {limit:,g}" for limit in limits)
    frame = Markup(
        '<figure><figcaption>{caption}</figcaption><svg class="strip" role="img" aria-label="{caption}" '
        'viewBox="0 0 {w} {h}">{marks}</svg></figure>'
    )
    caption = f"{check_name}: {scale}{bounds}"
    return frame.format(caption=caption, w=WIDTH, h=STRIP_HEIGHT, marks=Markup("").join(parts))
