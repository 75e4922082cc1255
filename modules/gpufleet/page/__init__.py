"""Pages and charts in HTML and SVG: one style, for light and dark, narrow and wide; no script, nothing from outside."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

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
