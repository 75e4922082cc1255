"""Test ``gpufleet cost diff --output``: each file in its format, complete or not written."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

CASE = Path(__file__).resolve().parents[1] / "cases/cost/create.json"


@pytest.fixture
def run_diff(gpufleet, tmp_path):
    (tmp_path / "preview.json").write_text(json.dumps(json.loads(CASE.read_text())["preview"]))
    return lambda *arguments: gpufleet("cost", "diff", "--preview", "preview.json", *arguments, cwd=tmp_path)


def test_one_diff_writes_several_files(run_diff, tmp_path):
    outputs = [argument for name in ("a.md", "a.json", "a.xml", "a.txt") for argument in ("--output", name)]
    completed = run_diff(*outputs)
    assert (completed.returncode, completed.stdout) == (0, "")
    assert (tmp_path / "a.md").read_text().startswith("**This change raises")
    assert json.loads((tmp_path / "a.json").read_text())["change"]["usd_per_month"] > 0
    assert ET.parse(tmp_path / "a.xml").getroot().tag == "testsuites"
    assert (tmp_path / "a.txt").read_text().startswith("This change raises")


def test_violated_policy_is_written_to_the_reports(run_diff, tmp_path):
    (tmp_path / "policy.yaml").write_text("max_increase_usd_per_month: 1\n")
    completed = run_diff("--policy", "policy.yaml", "--output", "a.json")
    assert completed.returncode == 1
    assert json.loads((tmp_path / "a.json").read_text())["policy"]["passed"] is False


def test_format_option_overrides_the_file_extension(run_diff, tmp_path):
    run_diff("--format", "json", "--output", "a.log")
    assert json.loads((tmp_path / "a.log").read_text())["currency"] == "USD"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--output", "a.pdf"),
            "--output a.pdf: unknown file extension '.pdf'; use .txt, .md, .json, .html or .xml",
        ),
        (("--output", "nowhere/a.md"), "nowhere/a.md: cannot be written: No such file or directory"),
        (
            ("--prices-before", "2026-07-01", "--prices-after", "2026-07-01"),
            "both dates select the same prices",
        ),
        (("--prices-before", "2999-01-01"), "--prices-before: 2999-01-01 is in the future; give 2"),
        (("--prices-after", "2999-01-01"), "--prices-after: 2999-01-01 is in the future; give 2"),
    ],
)
def test_mistakes_are_reported_in_one_line_and_write_nothing(run_diff, tmp_path, arguments, message):
    completed = run_diff(*arguments)
    assert completed.returncode == 2
    assert message in completed.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["preview.json"]
