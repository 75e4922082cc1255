"""Pages and charts in HTML and SVG: one style, for light and dark, narrow and wide; no script, nothing from outside."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from gpufleet.page.bar_chart import BarGroup, draw_bar_chart
from gpufleet.page.line_chart import ChartLine, ChartMark, draw_line_chart

__all__ = [
    "BarGroup",
    "ChartLine",
    "ChartMark",
    "draw_bar_chart",
    "draw_line_chart",
    "render_page",
]

if TYPE_CHECKING:
    from jinja2 import Environment


def render_page(template: str, **values: object) -> str:
    """Return a page; ``template`` is a path inside the package. Everything but ``Markup`` is escaped."""
    return load_templates().get_template(template).render(values)


@cache
def load_templates() -> Environment:
    """Return the environment of all pages, which extend ``page/page.html.j2``."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("gpufleet", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
