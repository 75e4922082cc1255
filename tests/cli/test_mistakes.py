"""What a person reads after a mistake on the command line: one line that says what, where and what would be right.

``mistakes.yaml`` has each command line with the first line of standard error. A command runs in the shipped project;
one that begins with ``outside:`` runs in an empty folder.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from ruamel.yaml import YAML

MISTAKES = YAML(typ="safe").load((Path(__file__).parents[1] / "cases/cli/mistakes.yaml").read_text())
NEEDED = {"the registry does not exist yet": 3}  # all others are wrong input


@pytest.mark.parametrize(("command", "line"), MISTAKES.items(), ids=MISTAKES)
def test_mistake_is_answered_in_one_line(gpufleet, shared_project, tmp_path, command, line):
    outside = command.startswith("outside: ")
    folder = tmp_path if outside else shared_project
    result = gpufleet(*shlex.split(command.removeprefix("outside: ")), cwd=folder)
    first, *rest = result.stderr.replace(f"{folder}", "FOLDER").splitlines()
    assert (first, result.returncode) == (f"error: {line}", NEEDED.get(line, 2))
    assert result.stdout == ""
    assert not rest or (len(rest) == 2 and rest[1].startswith("hint: gpufleet "))


def test_table_is_long_enough():
    assert len(MISTAKES) >= 50
