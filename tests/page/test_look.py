"""Look at every page in Chromium: at two widths, light and dark, nothing is cut, squeezed, faint or said twice."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from gpufleet import cost, fleet
from gpufleet.console import FleetReportData, burnin_pages, render_report_page
from gpufleet.console.acceptance_page import render_acceptance_page
from gpufleet.console.report_data import build_node_json
from gpufleet.cost.analysis import tco
from gpufleet.cost.inputs.stack_change import change_from_preview
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry
from gpufleet.operations import acceptance, burnin
from gpufleet.sizing.compare import file_output
from gpufleet.sizing.compare.builder import compare_accelerators
from gpufleet.sizing.compare.options import build_sizing_request

ROOT = Path(__file__).resolve().parents[2]
LOOKS = [(width, scheme) for width in (1400, 390) for scheme in ("light", "dark")]
PAGES = [
    "cost.html",
    "tco.html",
    "compare.html",
    "fleet.html",
    "rack-blades-1.html",
    "node-server.html",
    "acceptance.html",
]
PICTURES = [path.name for path in sorted((ROOT / "docs/images").glob("*.svg"))]  # also what a README shows

spec = importlib.util.spec_from_file_location(
    "burnin_pages_data", ROOT / "tests/console/test_burnin_pages.py"
)
burnin_data = importlib.util.module_from_spec(spec)
spec.loader.exec_module(burnin_data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write each page from a recorded preview, the example racks, the catalogue and a registry of measured nodes."""
    folder = tmp_path_factory.mktemp("pages")
    preview = json.loads((ROOT / "tests/cases/cost/recorded-production-doubled.json").read_text())["preview"]
    change = change_from_preview(preview)
    diff = cost.diff(change.before, change.after, change=change)
    (folder / "cost.html").write_text(cost.render_diff(diff, "html"))
    rack = tco.compute_rack_cost(fleet.load_rack(ROOT / "docs/examples/gpu-server-1.yaml"))
    request = tco.CloudMachineRequest("p5.48xlarge")
    comparison = tco.RackCloudComparison(rack, tco.choose_cloud_alternative(rack, request), 1.0)
    (folder / "tco.html").write_text(
        tco.render_tco_html(comparison, tco.find_cloud_alternatives(rack, request))
    )
    accelerators = compare_accelerators((), build_sizing_request(model="llama-3.1-8b"))
    (folder / "compare.html").write_text(file_output.render_html_page(accelerators))
    with pytest.MonkeyPatch.context() as patch, Registry(f"sqlite:///{folder / 'registry.db'}") as registry:
        patch.setenv("GPUFLEET_DATABASE_URL", f"sqlite:///{folder / 'registry.db'}")
        for slot in range(1, 21):
            records = burnin_data.blade_records(copy_mb_per_s=300.0 if slot == 6 else 2700.0 + slot)
            burnin_data.store(registry, f"blade{slot:02}", ("blades-1", slot), "compute_blade", records)
        burnin_data.store(registry, "server", ("gpus", 1), "gpu_server", burnin_data.GPU_RUN)
        burnin_pages.write_burnin_pages(folder)
        nodes = [build_node_json(node) for node in registry.list_nodes()]
        reports = burnin.load_newest_reports()
        registry.set_node_hold("blade03", "operator", "its fan is loud")
        registry.apply_observation(
            NodeObservation("rack:blades-1", "blade21", NodeIdentity(rack="blades-1", slot="21"))
        )
        issued = acceptance.issue_acceptance(
            acceptance.AcceptanceOptions(issued_by="ann"), None, render_acceptance_page
        )
        (folder / "acceptance.html").write_text(issued.render_page(issued.document))
    document = json.loads(cost.render_diff(diff, "json"))
    data = FleetReportData("production", "2026-11-28 12:00 UTC", nodes, reports, document)
    (folder / "fleet.html").write_text(render_report_page(data))
    return folder


@pytest.fixture(scope="module")
def tab():
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


CHECK = (Path(__file__).with_name("look.js")).read_text()


def look(tab, file, looks):
    """Return the faults of a file in each look."""
    tab.goto(f"file://{file}")
    found = []
    for width, scheme in looks:
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(color_scheme=scheme)
        found += [f"{width} {scheme}: {fault}" for fault in tab.evaluate(CHECK)]
    return found


@pytest.mark.parametrize("page", PAGES)
def test_page_is_whole_and_legible(page, folder, tab):
    assert look(tab, folder / page, LOOKS) == []


@pytest.mark.parametrize("picture", PICTURES)
def test_picture_is_whole_and_legible(picture, tab):
    assert look(tab, ROOT / "docs/images" / picture, [(1000, "light"), (1000, "dark")]) == []


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("<div style='width:500px'>wide</div>", "wider than the screen"),
        ("<pre>dump</pre>", "a dump of text"),
        ("<h1>Said</h1><p>Said</p>", "headline said 2 times"),
        ("<p style='color:#bbb;background:#fff'>faint</p>", "faint"),
        ("<table style='table-layout:fixed;width:60px'><tr><td>incomprehensible<td>x</table>", "squeezed"),
        ("<table><tr><td style='overflow-wrap:anywhere;max-width:20px'>incomprehensible</table>", "squeezed"),
        ("<svg width=60 height=20><text x=30 y=15>a long title</text></svg>", "cut"),
    ],
)
def test_each_fault_is_seen(page, fault, tab):
    tab.goto("about:blank")
    tab.set_viewport_size({"width": 390, "height": 400})
    tab.emulate_media(color_scheme="light")
    tab.set_content(f"<!doctype html><body>{page}")
    assert any(fault in found for found in tab.evaluate(CHECK))
