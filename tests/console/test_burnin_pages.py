"""Test the burn-in pages: content, small multiples, nothing from outside, and hostile text in a real browser."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gpufleet import burnin
from gpufleet.console import burnin_data, burnin_pages, line_plot
from gpufleet.console.line_plot import Line, draw_plot
from gpufleet.errors import InputError
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry

CASES = Path(__file__).resolve().parents[1] / "cases/burnin"
BLADE = json.loads((CASES / "bases/compute_blade.json").read_text())["records"]
GPU_RUN = [json.loads(line) for line in (CASES / "recorded/gpu/h100-quick.jsonl").read_text().splitlines()]
EVIL = "\"><script>document.title='owned'</script><img src=http://192.0.2.1/x onerror=alert(1)>\x1b[2J\u202e"


def store(registry, name, place, kind, records):
    """Register a node at its place (rack and slot) and store one measurement."""
    rack, slot = place
    registry.apply_observation(
        NodeObservation(
            f"rack:{rack}",
            name,
            NodeIdentity(rack=rack, slot=str(slot)),
            declared={"kind": kind, "machine": "a machine"},
        )
    )
    attempt = registry.start_attempt(name, "burn_in")
    report = replace(burnin.judge_attempt(records, kind, "quick", node=name), attempt=attempt)
    registry.record_burn_in_result(name, attempt, report.as_json(), records, reason="test")


def blade_records(**values):
    records = json.loads(json.dumps(BLADE))
    memory = next(record for record in records if record.get("name") == "memory")
    memory["raw"].update(values)
    return records


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Write the pages of a rack of six blades, one with history and one slow, and of a hostile GPU server."""
    folder = tmp_path_factory.mktemp("pages")
    hostile = json.loads(json.dumps(GPU_RUN))
    for record in hostile:
        for device in record.get("raw", {}).get("devices", []):
            device["name"] = EVIL
        record["reason"] = EVIL if record["type"] == "check" else ""
        if record.get("name") == "gpu_copy":
            record["status"] = "error"
    with pytest.MonkeyPatch.context() as patch, Registry(f"sqlite:///{folder / 'registry.db'}") as registry:
        patch.setenv("GPUFLEET_DATABASE_URL", f"sqlite:///{folder / 'registry.db'}")
        for slot in range(1, 7):
            rate = 2150.0 if slot == 6 else 2700.0 + slot
            store(
                registry,
                f"blade{slot:02}",
                ("blades-1", slot),
                "compute_blade",
                blade_records(copy_mb_per_s=rate),
            )
        for rate in (2690.0, 2680.0):
            store(registry, "blade01", ("blades-1", 1), "compute_blade", blade_records(copy_mb_per_s=rate))
        store(registry, "server", ("gpus", 1), "gpu_server", hostile)
        names = [path.name for path in burnin_pages.write_burnin_pages(folder)]
        only = [path.name for path in burnin_pages.write_burnin_pages(folder, "blade02")]
    (folder / "registry.db").unlink()
    return folder, names, only


def read(pages, name):
    return (pages[0] / name).read_text()


def test_every_node_and_rack_has_a_page(pages):
    nodes = [f"node-blade{slot:02}.html" for slot in range(1, 7)]
    assert set(pages[1]) == {"rack-blades-1.html", "rack-gpus.html", "node-server.html", *nodes}
    assert pages[2] == ["rack-blades-1.html", "node-blade02.html"]


def test_rack_page_shows_nodes_by_slot_stragglers_and_small_multiples(pages):
    page = read(pages, "rack-blades-1.html")
    assert "6 nodes: 6 healthy" in page
    assert re.findall(r"(\d) · blade", page) == ["1", "2", "3", "4", "5", "6"]
    assert page.count("<svg") == page.count('<circle class="line"') == 6 * 5
    assert page.count("<polyline") == 5  # only blade01 was measured more than once
    assert page.count('class="nowrap stands"') == 1
    assert "Worse than their equals" in page


def test_node_page_shows_checks_history_and_sensors(pages):
    page = read(pages, "node-blade01.html")
    assert "sbc-bench/issues/32" in page
    assert 'aria-label="memory copy of blade01 over 3 measurements"' in page
    assert '<line class="limit"' in page
    assert "<polyline" in page
    server = read(pages, "node-server.html")
    assert "core clock, MHz: " in server
    assert server.count("during gpu_compute") == 8


@pytest.mark.parametrize(
    "name", ["rack-blades-1.html", "rack-gpus.html", "node-server.html", "node-blade01.html"]
)
def test_page_needs_nothing_else_and_has_no_script(pages, name):
    page = read(pages, name)
    assert "<script" not in page
    assert not re.search(r"""<[^>]*\s(?:src|href)=["']?(?:https?:|//|data:)""", page)
    assert not re.search(r"<[^>]*\son\w+=", page)
    assert "default-src 'none'" in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_chromium_shows_the_pages_and_runs_no_hostile_text(pages):
    browser_path = shutil.which("chromium")
    if browser_path is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    requests, messages = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.on("request", lambda request: requests.append(request.url))
        tab.on("console", lambda message: messages.append(message.text))
        tab.goto(f"file://{pages[0]}/node-server.html")
        assert tab.title() == "server: burn-in"
        assert tab.locator("img, script, iframe").count() == 0
        assert "<script>document.title='owned'</script>" in tab.locator("body").inner_text()
        assert all(
            box["width"] > 50 and box["height"] > 20 for box in map(bounding_box, tab.locator("svg").all())
        )
        tab.get_by_role("link", name="gpus").click()
        tab.goto(f"file://{pages[0]}/rack-blades-1.html")
        assert tab.get_by_role("img").count() == 30
        tab.get_by_role("link", name="blade06").first.click()
        assert tab.title() == "blade06: burn-in"
        browser.close()
    assert {url.partition(":")[0] for url in requests} == {"file"}
    assert messages == []


def bounding_box(locator):
    return locator.bounding_box()


def test_unknown_folder_or_node_without_results_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="no such folder"):
        burnin_pages.write_burnin_pages(tmp_path / "none")
    url = f"sqlite:///{tmp_path / 'registry.db'}"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    with Registry(url) as registry:
        with pytest.raises(InputError, match="no burn-in result yet"):
            burnin_pages.write_burnin_pages(tmp_path)
        store(registry, "blade01", ("blades-1", 1), "compute_blade", blade_records())
        place = NodeIdentity(rack="blades-1", slot="2")
        registry.apply_observation(
            NodeObservation("rack:blades-1", "new", place, declared={"kind": "compute_blade"})
        )
        with pytest.raises(InputError, match="new: no burn-in result yet"):
            burnin_pages.write_burnin_pages(tmp_path, "new")


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a b", "", "x" * 200, "node/one", "名", "a\nb", ".", "a.b", "-rf"]
)
def test_file_names_stay_in_their_folder(name):
    file_name = burnin_data.build_file_name("node", name)
    assert re.fullmatch(r"node-[A-Za-z0-9_-]{0,95}\.html", file_name)
    assert file_name != burnin_data.build_file_name("node", f"{name}!")


@pytest.mark.parametrize(
    "raw",
    [
        {
            "series": {
                "columns": ["seconds", "celsius"],
                "samples": [["x", 1], [1], None, [1, "y"], [0, float("nan")]],
            }
        },
        {"series": {"columns": "celsius", "samples": 3}},
        {"series": []},
        {"devices": [None, 3, {"series": {"columns": ["celsius"], "samples": [[]]}}]},
    ],
)
def test_series_that_make_no_sense_are_left_out(raw):
    records = [{"type": "check", "name": "gpu_compute", "raw": raw}, None, "x"]
    assert list(burnin_data.collect_series(records)) == []


def test_series_of_the_node_itself_is_shown():
    table = {"columns": ["seconds", "celsius", "other"], "samples": [[0, 40, 1], [1, 41, 1]]}
    (series,) = burnin_data.collect_series([{"name": "cpu", "raw": {"series": table}}])
    assert (series.check, series.label, series.points) == ("cpu", "temperature, °C", ((0, 40), (1, 41)))


def test_series_of_the_loaded_cpu_and_of_a_cards_copies_are_shown():
    table = {
        "columns": ["seconds", "celsius", "mhz", "throttled"],
        "samples": [[0, 40, 1500, None], [1, 41, 1500, 0]],
    }
    cpu = {"name": "cpu", "raw": {"under_load": table}}
    card = {"name": "gpu_hip", "raw": {"devices": [{"name": "MI", "copy": {"series": table}}]}}
    found = burnin_data.collect_series([cpu, card])
    shown = [(series.check, series.device, series.label, len(series.points)) for series in found]
    assert shown[:3] == [
        ("cpu", "", "temperature, °C", 2),
        ("cpu", "", "CPU clock, MHz", 2),
        ("cpu", "", "throttling flags", 1),
    ]
    assert shown[3][:2] == ("gpu_hip copies", "MI")


def test_plot_places_points_and_limits():
    svg = str(draw_plot([Line([(0, 0), (10, 10)])], 'a "label"', limits=[5], width=106, height=56))
    assert 'points="3.0,' in svg
    assert "103.0," in svg
    assert 'y1="28.0" y2="28.0"' in svg
    assert "a &#34;label&#34;" in svg
    assert draw_plot([Line([])], "empty") == ""
    assert "<polyline" not in draw_plot([Line([(1, 1)])], "one point")


def test_long_series_are_thinned_to_their_end():
    points = [(float(at), 1.0) for at in range(5000)]
    kept = line_plot.thin_out(points)
    assert len(kept) <= line_plot.MAX_POINTS + 1
    assert (kept[0], kept[-1]) == (points[0], points[-1])
