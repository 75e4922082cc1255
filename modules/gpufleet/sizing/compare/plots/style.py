"""Shared style of the plots: colours, shapes, titles and SVG rendering."""

from __future__ import annotations

from typing import Any

from gpufleet.catalog import Accelerator

Row = dict[str, Any]
WIDTH = 620
# Labels of accelerator kinds with colour (Okabe and Ito) and shape.
KINDS = {
    "data-centre GPU": ("#0072B2", "circle"),
    "gaming card": ("#D55E00", "triangle-up"),
    "workstation card": ("#009E73", "square"),
    "Apple": ("#CC79A7", "diamond"),
    "TPU, NPU or other chip": ("#E69F00", "cross"),
    "board or small computer": ("#8C8C8C", "triangle-down"),
    "processor": ("#56B4E9", "stroke"),
}
NAMES = {
    "gpu_datacenter": "data-centre GPU", "gpu_gaming": "gaming card", "gpu_workstation": "workstation card",
    "apple": "Apple", "tpu": "TPU, NPU or other chip", "asic": "TPU, NPU or other chip",
    "npu": "TPU, NPU or other chip", "sbc": "board or small computer", "apu": "board or small computer",
    "cpu": "processor",
}  # fmt: skip
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3])
GREY = "#555555"
DARK = (  # a reader who prefers dark: the drawing's own colours, replaced
    '<style>@media(prefers-color-scheme:dark){.marks [fill="white"]{fill:#14161a}.marks [fill="#000"],'
    '.marks [fill="#000000"],.marks [fill="black"],.marks [fill="#222222"]{fill:#e8eaed}'
    '.marks [stroke="#000000"],.marks [stroke="#222222"]{stroke:#e8eaed}'
    '.marks [fill="#555555"]{fill:#a8b0bb}.marks [stroke="#555555"]{stroke:#a8b0bb}'
    '.marks [stroke="#e6e6e6"],.marks [stroke="#cccccc"]{stroke:#3a4049}}</style>'
)
# Vega measures text in a narrower font than many browsers draw it in: room for the difference.
PADDING = {"left": 34, "right": 56, "top": 12, "bottom": 12}


def accelerator_kind_label(accelerator: Accelerator) -> str:
    """Return the label of an accelerator's kind."""
    return NAMES[accelerator.kind]


def kind_color_encoding(alt: Any, kinds: set[str]) -> Any:
    """Return the colour encoding of the drawn kinds, with its legend."""
    used_kinds = [kind for kind in KINDS if kind in kinds]
    scale = alt.Scale(domain=used_kinds, range=[KINDS[kind][0] for kind in used_kinds])
    legend = alt.Legend(orient="bottom", columns=3, labelLimit=260, symbolSize=120, columnPadding=36)
    return alt.Color("kind:N", title=None, scale=scale, legend=legend)


def kind_shape_encoding(alt: Any, kinds: set[str]) -> Any:
    """Return the shape encoding of the drawn kinds; it shares the colour legend."""
    used_kinds = [kind for kind in KINDS if kind in kinds]
    return alt.Shape(
        "kind:N", title=None, scale=alt.Scale(domain=used_kinds, range=[KINDS[k][1] for k in used_kinds])
    )


def build_chart_title(alt: Any, title: str, subtitle: list[str]) -> Any:
    """Return a left-aligned title with a grey subtitle."""
    return alt.TitleParams(
        title,
        subtitle=subtitle,
        anchor="start",
        fontSize=14,
        subtitleFontSize=12,
        subtitleColor=GREY,
        offset=10,
    )


def render_svg(chart: Any) -> str:
    """Render a chart to self-contained SVG text on white."""
    import vl_convert

    styled = chart.configure(font="sans-serif", background="white", padding=PADDING)
    styled = styled.configure_axis(labelFontSize=12, titleFontSize=12, labelLimit=260, gridColor="#e6e6e6")
    styled = styled.configure_legend(labelFontSize=12).configure_view(stroke="#cccccc")
    svg: str = vl_convert.vegalite_to_svg(styled.to_dict())
    return svg.replace(">", f">{DARK}", 1)


def join_names_up_to(names: list[str], max_names: int = 10) -> str:
    """Return names separated by commas; those beyond ``max_names`` are counted."""
    more = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return ", ".join(names[:max_names]) + more


def wrap_lines(text: str, max_length: int = 88) -> list[str]:
    """Break a text into lines."""
    lines = [""]
    for token in text.split():
        if len(lines[-1]) + len(token) >= max_length:
            lines.append("")
        lines[-1] = f"{lines[-1]} {token}".strip()
    return lines
