"""Test that local links in the documentation exist, and that the README is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AT_THE_ROOT = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in AT_THE_ROOT), *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def links():
    return [(page.name, target) for page in PAGES for target in LINK.findall(page.read_text())]


@pytest.mark.parametrize(("page", "target"), links())
def test_link_target_exists(page, target):
    folder = ROOT if page in AT_THE_ROOT else ROOT / "docs"
    assert (folder / target).exists()


def test_readme_is_short_and_shows_a_command_early():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    assert any(line.startswith("$ ") for line in lines[:30])


def test_contributing_is_short_and_its_tests_and_recipes_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert len(text.splitlines()) <= 60
    tests = re.findall(r"\btests/[\w/.]+", text)
    assert len(tests) > 5
    assert [path for path in tests if not (ROOT / path).exists()] == []
    headings = (ROOT / "docs" / "architecture.md").read_text().splitlines()
    anchors = {"#" + line[3:].lower().replace(" ", "-") for line in headings if line.startswith("## ")}
    assert set(re.findall(r"architecture\.md(#[\w-]+)", text)) <= anchors
