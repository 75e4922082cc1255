"""Test that every threat and every promise in the threat model names an existing test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/threat-model.md").read_text()


def list_rows(heading: str) -> list[str]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


THREATS, PROMISES = list_rows("Threats"), list_rows("Promises that fail closed")
TEST = re.compile(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\) \|$")


def test_threat_model_lists_every_attacker():
    attackers = {row.split(" | ")[0].removeprefix("| ") for row in THREATS}
    assert attackers == {
        "A node", "A mesh node", "A pull request", "A file", "A network", "A local user",
        "A package", "An accident",
    }  # fmt: skip


@pytest.mark.parametrize("row", [*THREATS, *PROMISES])
def test_test_of_each_row_exists(row):
    name, file = TEST.search(row).groups()
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_promise_says_what_happens_when_it_cannot_be_kept():
    assert PROMISES
    assert [row for row in PROMISES if not all(cell.strip() for cell in row.strip("|").split(" | "))] == []
