"""A difference as one self-contained HTML page: no scripts, no links out, nothing to fetch."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from gpufleet.cost.analysis.diff import CostDiff
from gpufleet.cost.analysis.price_history import price_history
from gpufleet.cost.analysis.reports import plot, summary
from gpufleet.cost.analysis.what_if import what_if
from gpufleet.cost.formatting import number, percent, span, usd

TITLES = {"pool": "By pool", "purchase": "By purchase", "cloud": "By cloud"}


def diff(of: CostDiff) -> str:
    """Write the page."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"usd": usd, "span": span, "number": number, "percent": percent}
    source = (files("gpufleet.cost") / "data" / "diff.html.j2").read_text(encoding="utf-8")
    return environment.from_string(source).render(
        diff=of,
        headline=summary.headline(of),
        notes=summary.notes(of),
        changed=summary.dearest(line for line in of.lines if line.changed),
        same=summary.dearest(line for line in of.lines if not line.changed),
        gaps=summary.gaps(of.unpriced),
        kept=summary.kept(of.policy),
        sources=summary.sources(line.shown for line in of.lines),
        what=summary.what,
        warnings=summary.warnings(of),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **_drawn(of),
    )


def _drawn(of: CostDiff) -> dict[str, Any]:
    """Draw what the difference allows."""
    options = what_if(of.after)
    money = {title: plot.before_and_after(of, group) for group, title in TITLES.items()}
    return {
        "money": {title: svg for title, svg in money.items() if svg},
        "what_if": plot.what_if(options),
        "cannot": sorted({f"{row.machine} in {row.region}" for row in options if row.cheapest is None}),
        "history": plot.history(price_history(of.after.charges)),
    }
