"""Burn-in as self-contained HTML pages: one for each node and one for each rack or pool, without any script."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpufleet import boundary
from gpufleet.boundary import make_block_printable, make_values_printable
from gpufleet.burnin.outliers import ComparedMetric
from gpufleet.console.burnin_data import NodeBurnin, collect_node_burnins, find_group
from gpufleet.console.line_plot import Line, Point, draw_plot
from gpufleet.errors import InputError
from gpufleet.operations.burnin import open_results_registry
from gpufleet.page import render_page

TONES = {"healthy": "good", "degraded": "warn", "faulty": "bad", "incomplete": "idle"}
CELL_WIDTH, CELL_HEIGHT = 110, 34


def write_burnin_pages(folder: Path, node: str | None = None) -> list[Path]:
    """Write the pages of all nodes, or of one node and its rack; return their paths."""
    if not folder.is_dir():
        raise InputError("no such folder", where=str(folder), remedy="create it first")
    with open_results_registry() as registry:
        only = registry.get_node(node) if node else None
        group = find_group(only) if only else None
        shown = collect_node_burnins(registry.list_nodes(), registry.list_burn_in_results(), group)
    name = only.name if only else None
    if not shown or (name and name not in {entry.node.name for entry in shown}):
        raise InputError("no burn-in result yet", where=name or "", remedy="see gpufleet nodes list")
    groups: dict[str, list[NodeBurnin]] = {}
    for entry in shown:
        groups.setdefault(entry.group, []).append(entry)
    written = []
    for title, members in groups.items():
        pages = {members[0].group_file: render_group_page(title, members)}
        pages |= {
            entry.file_name: render_node_page(entry) for entry in members if name in {None, entry.node.name}
        }
        for file_name, page in pages.items():
            boundary.write_text(folder / file_name, page)
            written.append(folder / file_name)
    return written


def render_node_page(entry: NodeBurnin) -> str:
    """Return one node's page."""
    entry = make_values_printable(entry, make_block_printable)
    devices: dict[tuple[str, str], list[tuple[str, Any]]] = {}
    for series in entry.series:
        values = [value for _, value in series.points]
        plot = draw_plot([Line(series.points)], f"{series.label} during {series.check}")
        caption = f"{series.label}: {min(values):g} to {max(values):g}"
        devices.setdefault((series.check, series.device), []).append((caption, plot))
    history = [
        (metric, points[-1][1], draw_history(entry, metric, points))
        for metric, points in entry.history.items()
    ]
    return render_template(
        "burnin_node.html.j2",
        title=f"{entry.node.name}: burn-in",
        entry=entry,
        devices=devices,
        history=history,
    )


def render_group_page(group: str, members: Sequence[NodeBurnin]) -> str:
    """Return the page of a rack or pool: its nodes by slot, and every measurement of every node over time."""
    members = [make_values_printable(entry, make_block_printable) for entry in members]
    members.sort(
        key=lambda entry: (str(type(entry.node.slot_number)), entry.node.slot_number or 0, entry.node.name)
    )
    metrics = list(dict.fromkeys(metric for entry in members for metric in entry.history))
    scales = {
        metric: [point for entry in members for point in entry.history.get(metric, [])] for metric in metrics
    }
    rows = [(entry, [draw_cell(entry, metric, scales[metric]) for metric in metrics]) for entry in members]
    return render_template(
        "burnin_rack.html.j2",
        title=f"{make_block_printable(group)}: burn-in",
        group=make_block_printable(group),
        members=members,
        metrics=metrics,
        rows=rows,
        headline=count_verdicts(members),
        stragglers=[row for entry in members for row in entry.stragglers],
        problems=[
            (entry, check)
            for entry in members
            for check in entry.report["checks"]
            if check["outcome"] in {"fail", "warn"}
        ],
    )


def count_verdicts(members: Iterable[NodeBurnin]) -> str:
    """Return how many nodes have each verdict."""
    verdicts = [entry.report["verdict"] for entry in members]
    counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in TONES if verdict in verdicts]
    return f"{len(verdicts)} nodes: {', '.join(counts)}"


def draw_cell(entry: NodeBurnin, metric: ComparedMetric, scale: Sequence[Point]) -> tuple[str, Any, str]:
    """Return one measurement of one node: its newest value, its history, and whether it stands out."""
    points = entry.history.get(metric, [])
    if not points:
        return "", "", ""
    is_straggler = any(row["measurement"] == metric.label for row in entry.stragglers)
    plot = draw_history(entry, metric, points, find_corners(scale), width=CELL_WIDTH, height=CELL_HEIGHT)
    return f"{points[-1][1]:.4g}", plot, "stands" if is_straggler else ""


def find_corners(points: Sequence[Point]) -> list[Point]:
    """Return two corners of the rectangle around points."""
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    return [(min(xs), min(ys)), (max(xs), max(ys))]


def draw_history(
    entry: NodeBurnin,
    metric: ComparedMetric,
    points: Sequence[Point],
    scale: Sequence[Point] = (),
    *,
    width: int = 220,
    height: int = 60,
) -> Any:
    """Draw one measurement over time, with the threshold that decided it last if it bounds this measurement."""
    checks = [check for check in entry.report["checks"] if check["name"] == metric.check]
    limits = [
        float(check["threshold"])
        for check in checks
        if check["unit"] == metric.unit and isinstance(check["threshold"], int | float)
    ]
    label = f"{metric.label} of {entry.node.name} over {len(points)} measurements"
    return draw_plot([Line(points)], label, limits=limits, scale=scale, width=width, height=height)


def render_template(name: str, **values: Any) -> str:
    """Return a page."""
    return render_page(
        f"console/templates/{name}",
        written_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        rehearsal=bool(os.environ.get("GPUFLEET_REHEARSAL")),
        tones=TONES,
        **values,
    )
