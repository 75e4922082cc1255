"""Horizontal bars as HTML: their text keeps its size, wraps and takes the page's colours at every width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class BarGroup:
    """Bars of one subject: a value for each series; ``mark`` is a value that a tick shows."""

    name: str
    values: Mapping[str, float]
    mark: float | None = None


def draw_bar_chart(
    groups: Sequence[BarGroup], series: Mapping[str, str], unit: str, mark_label: str = ""
) -> Markup:
    """Return bars with whole figures in ``unit``. ``series`` has the colour class of each series (``c0`` to ``c5``)."""
    marks = [group.mark for group in groups if group.mark is not None]
    highest = max([*marks, *(value for group in groups for value in group.values.values())])
    keys = [Markup('<span><i class="{}"></i>{}</span>').format(css, name) for name, css in series.items()]
    keys += [Markup('<span><i class="mark"></i>{}</span>').format(mark_label)] if marks else []
    rows = [_draw_group(group, series, highest or 1.0) for group in groups]
    return Markup('<div class="bars"><p class="legend"><span>{}:</span>{}</p>{}</div>').format(
        unit, Markup("").join(keys), Markup("").join(rows)
    )


def _draw_group(group: BarGroup, series: Mapping[str, str], highest: float) -> Markup:
    bars = [
        Markup('<div class="bar {}" title="{}"><i style="--share:{:.4f}"></i>{:,.0f}</div>').format(
            css, name, group.values[name] / highest, group.values[name]
        )
        for name, css in series.items()
        if name in group.values
    ]
    if group.mark is not None:
        bars.append(Markup('<u style="--share:{:.4f}"></u>').format(group.mark / highest))
    return Markup('<div class="group"><span class="name">{}</span><div class="tracks">{}</div></div>').format(
        group.name, Markup("").join(bars)
    )
