"""Test that the documentation is one site: every page is in its navigation, and every link leads somewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def build(tmp_path):
    """Return a function that builds a copy of the pages."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / ".ci").mkdir()
    for name in ("mkdocs.yml", "mkdocs_hooks.py"):
        shutil.copy(ROOT / ".ci" / name, tmp_path / ".ci" / name)

    def run():
        # Without -q: it hides warnings from strict mode, too (mkdocs 1.6.1).
        command = [sys.executable, "-m", "mkdocs", "build", "-f", tmp_path / ".ci/mkdocs.yml"]
        environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


def test_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(build, tmp_path):
    result = build()
    assert result.returncode == 0, result.stderr
    page = (tmp_path / ".gpufleet/site/cost/index.html").read_text()
    assert 'src="http' not in page
    page = (tmp_path / ".gpufleet/site/threat-model/index.html").read_text()
    assert "gpufleet/blob/main/tests/" in page  # a link to a file of the repository
    assert (tmp_path / ".gpufleet/site/search/search_index.json").stat().st_size > 100_000


def test_links_that_lead_nowhere_and_pages_outside_of_the_navigation_fail_the_build(build, tmp_path):
    links = ("nowhere.md", "spec.md#nowhere", "#nowhere", "images/no.png")
    with (tmp_path / "docs/cost.md").open("a") as page:
        page.write("".join(f"\n[x]({link})\n" for link in links))
    (tmp_path / "docs/new.md").write_text("# New\n")
    result = build()
    assert result.returncode == 1
    assert [link for link in (*links, "- new.md") if link not in result.stderr] == []


def test_page_of_commands_is_current():
    code = "from tools.command_page import format_page; print(format_page(), end='')"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (ROOT / "docs/commands.md").read_text() == result.stdout, "run: python -m tools.command_page"
