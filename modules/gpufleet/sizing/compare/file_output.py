"""Plots and pages to files: drawn whole, then written."""

from __future__ import annotations

from pathlib import Path

from gpufleet import boundary
from gpufleet.sizing.compare import plots
from gpufleet.sizing.compare.comparison import Comparison
from gpufleet.sizing.compare.report import report
from gpufleet.sizing.data_file import DATA

PAGE = "compare.html.j2"


def write(comparison: Comparison, names: tuple[str, ...], svg: Path | None, html: Path | None) -> None:
    """Write one plot, a page, or both; nothing is written where one can't be drawn."""
    texts = {}
    if svg:
        texts[svg] = plots.svg(comparison, names[0] if names else _usual(comparison))
    if html:
        texts[html] = page(comparison, names)
    for path, text in texts.items():
        boundary.write_text(path, text)


def page(comparison: Comparison, names: tuple[str, ...] = ()) -> str:
    """Return one HTML page that needs nothing else: the plots asked for, or all there can be, and the figures."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    drawn = {name: plots.svg(comparison, name) for name in names} or plots.possible(comparison)
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(
        (DATA / PAGE).read_text(encoding="utf-8")
    )
    work = comparison.workload
    return template.render(
        headline="Accelerators compared" + (f": {work.model.name}" if work else ""),
        plots={name: Markup(text) for name, text in drawn.items()},  # noqa: S704 - drawn by the line above
        figures=report(comparison),
        sources=[(each.part.name, each.part.source, each.part.as_of) for each in comparison.subjects],
        prices=[(each.part.name, each.price) for each in comparison.subjects if each.price],
    )


def _usual(comparison: Comparison) -> str:
    return "tokens" if comparison.workload else "roofline"
