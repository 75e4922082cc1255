"""Test that every command in the documentation's console blocks runs in the rehearsal of the demo."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.hosts, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
# test_first_steps.py types those of the tutorial, and each block that begins a fleet, in a folder of its own.
PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if page.name != "tutorial.md"
]
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)

# These two install and run everything: a fresh clone and CI are their test.
WHOLE_JOBS = ("make demo", "make test", "make bench")
# After the demo these must fail, because three blades have faults. Ansible's exit code is 4.
NO_IS_RIGHT = {
    "gpufleet configure": {0, 1},
    "ansible-runner run . --project-dir playbooks -p site.yml --limit new_blades": {4},
    "gpufleet burnin report": {0, 1},
    "gpufleet nodes facts": {0, 1},
    "gpufleet watch --once": {0, 1},
    "gpufleet nodes drift": {0, 1},
    "gpufleet nodes diff": {0, 1},
    "gpufleet nodes sweep": {3},  # a rehearsal has no real cloud
    "gpufleet prices blocks": {3},  # needs credentials
    "gpufleet prices spot": {3},
    "gpufleet quota": {3},  # simulated clouds have no quotas: nothing is checked
}


def read_commands(page):
    """Return a page's commands, without the comments behind them."""
    blocks = [block for block in CONSOLE.findall(page.read_text()) if "$ gpufleet init" not in block]
    lines = [line for block in blocks for line in block.splitlines()]
    commands = [re.split(r"\s{2,}#", line[2:])[0].strip() for line in lines if line.startswith("$ ")]
    return [command for command in commands if not command.startswith(WHOLE_JOBS)]


def is_last(item):
    """Sort the commands that remove a rehearsal after all others."""
    return "rehearse down" in item[1]


def list_commands():
    page_commands = {(page.name, command) for page in PAGES for command in read_commands(page)}
    pages_by_command = {command: page for page, command in sorted(page_commands, reverse=True)}
    return sorted(
        ((page, command) for command, page in pages_by_command.items()),
        key=lambda item: (is_last(item), item),
    )


@pytest.mark.parametrize(("page", "command"), list_commands())
def test_documented_command_prints_the_documented_output(demo_project, page, command):
    result = demo_project.run_command(command)
    allowed = next((codes for start, codes in NO_IS_RIGHT.items() if command.startswith(start)), {0})
    assert result.returncode in allowed, f"{page}: {result.stdout[-1500:]}{result.stderr[-1500:]}"
    assert "Traceback" not in result.stdout + result.stderr
