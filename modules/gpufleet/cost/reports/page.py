"""A difference as one self-contained HTML page: no scripts, no links out, nothing to fetch."""

from __future__ import annotations

from importlib.resources import files

from gpufleet.cost.change import CostDiff
from gpufleet.cost.reports import phrases
from gpufleet.cost.wording import number, span, usd


def diff(of: CostDiff) -> str:
    """Write the page."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"usd": usd, "span": span, "number": number}
    source = (files("gpufleet.cost") / "data" / "diff.html.j2").read_text(encoding="utf-8")
    return environment.from_string(source).render(
        diff=of,
        headline=phrases.headline(of),
        bounds=phrases.bounds(of),
        changed=[line for line in of.lines if line.changed],
        same=[line for line in of.lines if not line.changed],
        gaps=phrases.gaps(of.unpriced),
        sources=phrases.sources(line.shown for line in of.lines),
        what=phrases.what,
    )
