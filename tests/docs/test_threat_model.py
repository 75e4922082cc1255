"""Test that every threat in the threat model names an existing test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/threat-model.md").read_text()
SECTION = PAGE.partition("## Threats")[2].partition("\n## ")[0]
ROWS = [line for line in SECTION.splitlines() if line.startswith("| ")][1:]
TEST = re.compile(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\) \|$")


def test_threat_model_lists_every_attacker():
    attackers = {row.split(" | ")[0].removeprefix("| ") for row in ROWS}
    assert attackers == {
        "A node", "A mesh node", "A pull request", "A file", "A network", "A local user",
        "A package", "An accident",
    }  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_test_of_each_threat_exists(row):
    name, file = TEST.search(row).groups()
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
