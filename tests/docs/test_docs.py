"""Test that local links in the documentation exist, and that the README is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def links():
    return [(page.name, target) for page in PAGES for target in LINK.findall(page.read_text())]


@pytest.mark.parametrize(("page", "target"), links())
def test_link_target_exists(page, target):
    folder = ROOT if page == "README.md" else ROOT / "docs"
    assert (folder / target).exists()


def test_readme_is_short_and_shows_a_command_early():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    assert any(line.startswith("$ ") for line in lines[:30])
