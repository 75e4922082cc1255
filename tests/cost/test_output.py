"""``gpufleet cost diff --output``: each file in the form of its ending, whole or not there."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

CASE = Path(__file__).resolve().parents[1] / "cases/cost/create.json"


@pytest.fixture
def ask(gpufleet, tmp_path):
    (tmp_path / "preview.json").write_text(json.dumps(json.loads(CASE.read_text())["preview"]))
    return lambda *words: gpufleet("cost", "diff", "--preview", "preview.json", *words, cwd=tmp_path)


def test_several_files_from_one_question(ask, tmp_path):
    outputs = [word for name in ("a.md", "a.json", "a.xml", "a.txt") for word in ("--output", name)]
    done = ask(*outputs)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "a.md").read_text().startswith("**This change raises")
    assert json.loads((tmp_path / "a.json").read_text())["change"]["usd_per_month"] > 0
    assert ET.parse(tmp_path / "a.xml").getroot().tag == "testsuites"
    assert (tmp_path / "a.txt").read_text().startswith("This change raises")


def test_a_broken_policy_is_written_too(ask, tmp_path):
    (tmp_path / "policy.yaml").write_text("max_increase_usd_per_month: 1\n")
    done = ask("--policy", "policy.yaml", "--output", "a.json")
    assert done.returncode == 1
    assert json.loads((tmp_path / "a.json").read_text())["policy"]["passed"] is False


def test_the_form_that_was_asked_for_comes_before_the_ending(ask, tmp_path):
    ask("--format", "json", "--output", "a.log")
    assert json.loads((tmp_path / "a.log").read_text())["currency"] == "USD"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--output", "a.pdf"), "--output: no form ends in '.pdf'; add --format"),
        (("--output", "nowhere/a.md"), "nowhere/a.md: cannot be written: No such file or directory"),
        (("--prices-before", "2026-07-01", "--prices-after", "2026-07-01"), "both sides at the same prices"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(ask, tmp_path, words, said):
    done = ask(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["preview.json"]
