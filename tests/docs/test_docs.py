"""Every command in the documentation is run, and every local link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")

# These two install and run everything: the fresh-clone run and CI are their test.
WHOLE_JOBS = ("make demo", "make test")


def commands(page):
    """Return the command lines of a page's console blocks, without their comments."""
    lines = [line for block in CONSOLE.findall(page.read_text()) for line in block.splitlines()]
    typed = [line[2:].split("   #")[0].split("    #")[0].rstrip() for line in lines if line.startswith("$ ")]
    return [line for line in typed if line not in WHOLE_JOBS]


def links():
    return [(page.name, target) for page in PAGES for target in LINK.findall(page.read_text())]


@pytest.mark.parametrize(("page", "target"), links())
def test_link_leads_somewhere(page, target):
    folder = ROOT if page == "README.md" else ROOT / "docs"
    assert (folder / target).exists()


def test_readme_is_short_and_shows_a_command_early():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    assert any(line.startswith("$ ") for line in lines[:30])
