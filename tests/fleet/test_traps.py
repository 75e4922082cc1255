"""Test that docs/traps.md names rules that exist, and that tests/cases/traps.csv names the tests it speaks of."""

from __future__ import annotations

import csv
import re

import pytest

from gpufleet import fleet


@pytest.fixture(scope="module")
def rows(repo_root):
    page = (repo_root / "docs/traps.md").read_text()
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return [(trap, catch) for trap, catch in lines if trap != "trap"]


def test_named_rules_exist(rows):
    named = {
        name
        for _, catch in rows
        for part in re.findall(r"rule ((?:`[a-z0-9-]+`(?:, )?)+)", catch)
        for name in re.findall(r"`([a-z0-9-]+)`", part)
    }
    assert named - set(fleet.RULES) == set()
    assert len(named) >= 20


def test_tests_of_traps_exist(rows, repo_root):
    with (repo_root / "tests/cases/traps.csv").open(encoding="utf-8") as file:
        tests = list(csv.DictReader(file))
    assert {row["trap"] for row in tests} == {
        trap for trap, catch in rows if re.search(r"\b(a test|tests)\b", catch)
    }
    defined = set()
    for path in (repo_root / "tests").rglob("test_*.py"):
        defined |= set(re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))
    assert sorted({row["test"] for row in tests} - defined) == []
    assert len(tests) >= 60


def test_every_trap_has_a_catch_or_a_reason(rows):
    assert len(rows) >= 60
    assert [trap for trap, catch in rows if not re.match(r"(rule `|a test|tests|because )", catch)] == []
