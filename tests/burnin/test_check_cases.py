"""Test each check by its cases: what it records of a host, what is read from the record, and how that is judged.

`tests/cases/burnin/checks/CHECK/NAME.json` has a host (files, outputs of tools, parameters) or only the record's `raw`.
What a case does not name is not compared.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

from gpufleet import burnin
from gpufleet.burnin.agent import settings
from gpufleet.burnin.agent.command import CommandOutput
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.check_definition import load_checks, parse_check
from gpufleet.burnin.readings import extract_check_metrics, list_read_checks
from gpufleet.burnin.verdict import judge_check
from gpufleet.errors import InputError

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "tests/cases/burnin/checks").glob("*/*.json"))
FOLDERS = ROOT / "modules/gpufleet/burnin/checks"


def lay_out_host(root, files=None, tools=None, params=None):
    """Return a host with these files and tools, and nothing else."""
    for name, text in (files or {}).items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    outputs = {line: CommandOutput(**output) for line, output in (tools or {}).items()}
    installed = {line.split()[0] for line in outputs}

    def run(argv, _timeout, consume=None):
        output = outputs[" ".join(argv)]
        for line in output.out.splitlines() if consume else ():
            consume(line)
        return output

    return HostAccess(params or {}, str(root), run, lambda tool: tool if tool in installed else None)


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(path, tmp_path):
    name, case = path.parent.name, json.loads(path.read_text())
    record = {"name": name, "status": case.get("status", "ran"), "raw": case["raw"]}
    if "host" in case:
        measure = importlib.import_module(f"gpufleet.burnin.checks.{name}.measure")
        result = measure.measure_host(lay_out_host(tmp_path, **case["host"]))
        assert (result.status, result.reason) == (case["status"], case.get("why_not", ""))
        assert json.loads(json.dumps(result.raw)) == case["raw"]
    readings = extract_check_metrics(name, case["raw"])
    if "metrics" in case:
        assert readings.metrics == pytest.approx(case["metrics"])
        assert readings.display_value == pytest.approx(case["shown"])
        assert readings.unit == case["unit"]
        assert readings.unreadable == ""
    if "unreadable" in case:
        assert readings.unreadable == case["unreadable"]
    if "outcome" in case:
        judged = judge_check(
            record, burnin.select_thresholds(case.get("kind", "gpu_server")), "", rehearsal=False
        )
        assert judged.outcome == case["outcome"]
        assert case.get("reason", "") in judged.reason


@pytest.mark.parametrize("name", load_checks())
def test_folder_of_a_check_is_complete(name):
    check, files = load_checks()[name], {path.name for path in (FOLDERS / name).iterdir()}
    assert ("measure.py" in files) == (check.run is not None)
    assert ("read.py" in files) == (name in list_read_checks()) == bool(check.thresholds)
    assert check.alternative is None or check.alternative in load_checks()
    assert name in {path.parent.name for path in CASES}


CHECK = {"measures": "a", "miss": "b", "next": ["c"], "order": 1}
BOUND = {"metric": "m", "unit": "s", "source": "a test", "date": "2026-11-28"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"requierd": ["any"]}, "requierd"),
        ({"required": ["toaster"]}, "required.0"),
        ({"order": None}, "order"),
        ({"thresholds": [{**BOUND, "floor": 1, "ceiling": 2}]}, "more than one of floor, ceiling and below"),
        ({"thresholds": [{**BOUND, "at_least": 1}]}, "thresholds.0.at_least"),
        ({"thresholds": [{**BOUND, "date": "soon"}]}, "thresholds.0.date"),
        ({"parameters": {"x": {"type": "colour"}}}, "parameters.x.type"),
        ({"repair": [{**BOUND, "steps": ["rma"], "meaning": "gone"}]}, "repair.0.unit"),
    ],
)
def test_mistake_in_a_check_file_is_one_line_with_its_place(change, message):
    with pytest.raises(InputError) as caught:
        parse_check("toy", {**CHECK, **change})
    assert str(caught.value).startswith("gpufleet/burnin/checks/toy/check.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_two_checks_declare_the_same_parameter():
    names = [*settings.SHARED, *(key for check in load_checks().values() for key in check.parameters)]
    assert len(names) == len({*names})


def test_every_folder_is_a_check_and_no_two_share_a_place():
    folders = {path.name for path in FOLDERS.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {*load_checks()}
    assert len({check.order for check in load_checks().values()}) == len(load_checks())


def test_every_check_is_described_in_one_line():
    page = (ROOT / "docs/burn-in.md").read_text().partition("## Checks")[2].partition("## Profiles")[0]
    rows = re.findall(r"^\| (\w+) \| \S.* \| \S.* \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted(["check", *load_checks()])
