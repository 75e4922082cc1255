"""A difference as one self-contained HTML page: no scripts, no external links."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gpufleet.cost.analysis.diff import CostDiff, CostDiffLine
from gpufleet.cost.analysis.price_history import load_price_history
from gpufleet.cost.analysis.reports import plot, summary
from gpufleet.cost.analysis.what_if import compare_purchase_kinds
from gpufleet.cost.formatting import format_number, format_percent_change, format_usd
from gpufleet.page import render_page

TITLES = {"pool": "By pool", "purchase": "By purchase", "cloud": "By cloud"}


def render_diff_html(diff: CostDiff) -> str:
    """Return the page."""
    changed = summary.sort_lines_by_cost_change(line for line in diff.lines if line.is_changed)
    same = summary.sort_lines_by_cost_change(line for line in diff.lines if not line.is_changed)
    return render_page(
        "cost/data/diff.html.j2",
        usd=format_usd,
        number=format_number,
        percent=format_percent_change,
        diff=diff,
        headline=summary.format_change_headline(diff),
        notes=summary.format_headline_notes(diff),
        changed=_group_by_pool(changed),
        same=_group_by_pool(same),
        same_count=len(same),
        gaps={
            summary.WITHOUT_PRICE: summary.format_unpriced_reasons(diff.gaps.without_price),
            summary.BY_USE: summary.format_unpriced_reasons(diff.gaps.by_use),
        },
        unknown=summary.format_unknown_changes(diff),
        kept=summary.format_met_limits(diff.policy),
        skipped=summary.format_skipped_reasons(diff.after.skipped_resources),
        sources=summary.format_price_sources(line.shown_charge for line in diff.lines),
        what=summary.format_quantity_and_item,
        warnings=summary.format_diff_warnings(diff),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **_draw_plots(diff),
    )


def _group_by_pool(lines: list[CostDiffLine]) -> list[tuple[str, list[CostDiffLine]]]:
    """Return the lines of each pool in their order; the pool of the first line comes first."""
    pools: dict[str, list[CostDiffLine]] = {}
    for line in lines:
        pools.setdefault(plot.GROUPS["pool"](line.shown_charge), []).append(line)
    return list(pools.items())


def _draw_plots(diff: CostDiff) -> dict[str, Any]:
    """Return the plots that the difference has data for."""
    rows = compare_purchase_kinds(diff.after)
    month_plots = {title: plot.plot_cost_before_and_after(diff, group) for group, title in TITLES.items()}
    return {
        "money": {title: svg for title, svg in month_plots.items() if svg},
        "what_if": plot.plot_what_if_costs(rows),
        "cannot": sorted({f"{row.machine} in {row.region}" for row in rows if row.cheapest_option is None}),
        "history": plot.plot_price_history(load_price_history(diff.after.charges)),
    }
