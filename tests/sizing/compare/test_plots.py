"""Plots: distinguishable marks, readable labels, a self-contained page."""

from __future__ import annotations

import itertools
import json
import re
from xml.etree import ElementTree as ET

import pytest

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.sizing.compare import file_output, plots
from gpufleet.sizing.compare.builder import compare_accelerators
from gpufleet.sizing.compare.options import build_sizing_request
from gpufleet.sizing.compare.plots import labels, style

TRAINED = {"model": "llama-3.1-8b", "task": "lora"}
SERVED = {"model": "llama-3.1-8b", "precision": "q4_k_m"}


def compare(*names, **options):
    return compare_accelerators(names, build_sizing_request(**{"model": "", **options}))


def asked_for(name):
    return TRAINED if name == "training" else SERVED


@pytest.fixture(scope="module")
def drawn_plots():
    """Return every plot of the usual parts as SVG text."""
    return {name: plots.draw_svg(compare(**asked_for(name)), name) for name in plots.PLOTS}


UNITS = {
    "roofline": ("operations per byte", "operations/s"),
    "memory-bandwidth": ("GiB", "GB/s"),
    "tokens": ("tokens/s", "80 % interval"),
    "per-watt": ("tokens per joule",),
    "per-dollar": ("million tokens per USD",),
    "training": ("tokens/s trained on per device",),
    "power": ("(W)",),
}


@pytest.mark.parametrize("name", plots.PLOTS)
def test_every_plot_names_units_and_accelerators(name, drawn_plots):
    texts = " ".join(ET.fromstring(drawn_plots[name]).itertext())
    assert all(unit in texts for unit in UNITS[name])
    for subject in compare(**asked_for(name)).accelerators:
        assert subject.accelerator.name in texts  # drawn, or said to be unknown


@pytest.mark.parametrize("name", plots.PLOTS)
def test_axes_have_no_exponent_notation(name, drawn_plots):
    texts = list(ET.fromstring(drawn_plots[name]).itertext())
    assert not [text for text in texts if re.fullmatch(r"[\d.]+e[+-]?\d+", text.strip())]


def test_every_plot_option_is_implemented():
    from gpufleet.cli.compare import PLOTS

    assert tuple(plots.PLOTS) == PLOTS


def test_drawn_intervals_match_the_plan():
    comparison = compare("L4", "RTX 4090", **SERVED)
    chart = json.loads(json.dumps(plots.PLOTS["tokens"](comparison).to_dict()))
    rows = {
        row["name"]: row
        for layer in chart["layer"]
        for row in layer.get("data", chart.get("data", {})).get("values", [])
    }
    rows = rows or {row["name"]: row for row in chart["data"]["values"]}
    for subject in comparison.accelerators:
        row = rows[subject.name_with_count]
        assert row["low"] == pytest.approx(subject.plan.tokens_per_s_low)
        assert row["high"] == pytest.approx(subject.plan.tokens_per_s_high)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tokens", {}, "needs a model"),
        ("per-dollar", {}, "needs a model"),
        ("training", SERVED, "needs a training task"),
    ],
)
def test_plot_without_data_is_refused_with_the_reason(name, options, message):
    with pytest.raises(InputError, match=message):
        plots.draw_svg(compare(**options), name)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("roofline", "Etched Sohu"),
        ("memory-bandwidth", "Etched Sohu"),
        ("power", "M4 Max (40)"),
        ("per-dollar", "RTX 4090"),
    ],
)
def test_plot_without_known_values_is_refused(name, part):
    with pytest.raises(InputError, match=r"known|states"):
        plots.draw_svg(compare(part, **SERVED), name)


def test_page_is_self_contained_and_lists_sources():
    page = file_output.render_html_page(compare("H100 SXM5 80GB", "RTX 4090", **SERVED))
    assert not re.search(r"""(?:src|href)=["'](?!#)""", page)
    assert "<script" not in page
    assert page.count("<svg") == 6  # all but training
    for texts in (
        "80 % RANGE",
        catalog.get_accelerator("RTX 4090").source.split(";")[0][:30],
        "USD/hour, reserved_3y",
    ):
        assert texts in page


def test_page_contains_the_requested_plots(gpufleet, project, tmp_path):
    file = tmp_path / "page.html"
    completed = gpufleet("compare", "--plot", "power", "--plot", "roofline", "--html", str(file), cwd=project)
    assert completed.returncode == 0, completed.stderr
    assert re.findall(r'<figure id="([\w-]+)">', file.read_text()) == ["power", "roofline"]


def test_svg_is_a_roofline_without_a_model_and_a_speed_plot_with_one(gpufleet, project, tmp_path):
    for more, texts in ((), "Rooflines"), (("--model", "qwen2-0.5b"), "Tokens per second"):
        file = tmp_path / f"{texts}.svg"
        assert gpufleet("compare", "L4", "T4", *more, "--svg", str(file), cwd=project).returncode == 0
        assert texts in file.read_text()


def overlap(box, other_box):
    return box[0] < other_box[2] and other_box[0] < box[2] and box[1] < other_box[3] and other_box[1] < box[3]


def test_labels_overlap_neither_each_other_nor_points():
    points = [(100 + 40 * (n % 3), 100 + 17 * n) for n in range(12)]
    boxes = labels.place_point_labels(points, [f"accelerator {n}" for n in range(12)], 620, 400)
    assert not [pair for pair in itertools.combinations(boxes, 2) if overlap(*pair)]
    for box, (at, point) in itertools.product(boxes, enumerate(points)):
        if boxes.index(box) != at:
            assert not overlap(box, (point[0] - 2, point[1] - 2, point[0] + 2, point[1] + 2))


def test_labels_stay_inside_and_avoid_fixed_boxes():
    points = [(600, 10), (610, 390), (5, 200)]
    fixed = [(14.0, 190.0, 120.0, 210.0)]
    boxes = labels.place_point_labels(points, ["a long name of a part"] * 3, 620, 400, fixed)
    assert all(box[0] >= 0 and box[2] <= 620 and box[1] >= 0 and box[3] <= 400 for box in boxes)
    assert not overlap(boxes[2], fixed[0])


@pytest.mark.parametrize(
    "preferred", [[10, 11, 12, 13], [390, 391, 200, 399], [5, 5, 5, 5, 5], [300, 20, 100]]
)
def test_spread_positions_keep_order_and_distance(preferred):
    positions = labels.spread_label_positions(preferred, 15, 0, 400)
    ordered = sorted(positions)
    assert all(later - sooner >= 15 - 1e-9 for sooner, later in itertools.pairwise(ordered))
    assert all(0 <= place <= 400 for place in positions)
    strictly = [
        (a, b) for a, b in itertools.combinations(range(len(preferred)), 2) if preferred[a] != preferred[b]
    ]
    assert all((preferred[a] < preferred[b]) == (positions[a] < positions[b]) for a, b in strictly)


def test_logarithmic_axis_maps_values_by_their_logarithm():
    assert labels.log_axis_pixel(10, (1, 100), 200) == pytest.approx(100)
    assert labels.log_axis_domain([1, 100], 2) == (0.5, 200)


def test_bar_labels_fit_on_the_axis():
    end = labels.axis_end_that_fits_labels([(100.0, "100"), (50.0, "x" * 30)], 480)
    assert 50.0 / end * 480 + 30 * labels.CHARACTER_WIDTH <= 480
    assert 100.0 / end * 480 + 3 * labels.CHARACTER_WIDTH <= 480


def test_kinds_differ_by_colour_and_by_shape():
    colours, shapes = zip(*style.KINDS.values(), strict=True)
    assert len(set(colours)) == len(colours)
    assert len(set(shapes)) == len(shapes)
    assert {part.kind for part in catalog.load_accelerators().values()} <= set(style.NAMES)


def test_long_lists_of_names_are_cut_and_counted():
    assert style.join_names_up_to([str(n) for n in range(12)]) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
    assert style.join_names_up_to(["a", "b"]) == "a, b"
    assert style.wrap_lines("aa bb cc", 5) == ["aa bb", "cc"]
