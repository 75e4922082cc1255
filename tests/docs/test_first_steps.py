"""Test that what a new user types works in an empty folder: the tutorial, and the sessions that begin with `init`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
TUTORIAL = ROOT / "docs/tutorial.md"
# The package under test is installed already.
INSTALLS = ("pip install", "uv tool install", "pipx install")
# One of the tutorial's blades is broken on purpose.
NO_IS_RIGHT = ("gpufleet configure --limit new_blades", "gpufleet burnin report")
MARK = "== command "


def read_session(block):
    """Return each command of a block with the output that the page shows."""
    starts = [match.start() for match in re.finditer(r"^\$ ", block, re.MULTILINE)]
    parts = [block[start + 2 : end] for start, end in pairwise([*starts, len(block)])]
    split = [part.partition("\n") for part in parts]
    return [
        (re.split(r"\s{2,}#", command)[0].strip(), output.splitlines()) for command, _newline, output in split
    ]


def assert_shown(page, command, shown, output):
    """Compare the lines that a page shows with those that were printed; dots stand for what the page leaves out."""
    printed = [line.rstrip() for line in output.splitlines()]
    for line in [line.rstrip() for line in shown if line.strip() not in {"", "…"}]:
        cut = line.removesuffix("…") if line.endswith("…") else None
        found = line in printed or (cut is not None and any(text.startswith(cut) for text in printed))
        assert found, f"{page}: {command}\n{output}"


def list_sessions():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    blocks = [
        (page.name, block) for page in pages if page != TUTORIAL for block in BLOCK.findall(page.read_text())
    ]
    return [(page, read_session(block)) for page, block in blocks if "$ gpufleet init" in block]


def run_session(session, folder, env):
    """Type the commands into one shell; return each one's output and exit code."""
    commands = [command for command, _shown in session if not command.startswith(INSTALLS)]
    lines = [f"{command}\nprintf '\\n{MARK}%s\\n' $?" for command in commands]
    completed = subprocess.run(
        ["bash", "-o", "pipefail"],
        input="\n".join(lines) + "\n",
        cwd=folder,
        env=env | {"COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    parts = re.split(rf"\n?^{MARK}(\d+)\n", completed.stdout, flags=re.MULTILINE)
    return dict(zip(commands, zip(parts[::2], map(int, parts[1::2]), strict=False), strict=True))


@pytest.fixture
def new_user(clean_env, tmp_path):
    """Return the environment of somebody with git, but without a project or a clone."""
    author = {"GIT_AUTHOR_NAME": "ops", "GIT_AUTHOR_EMAIL": "ops@example.org"}
    committer = {"GIT_COMMITTER_NAME": "ops", "GIT_COMMITTER_EMAIL": "ops@example.org"}
    return clean_env | author | committer | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


@pytest.mark.parametrize(("page", "session"), list_sessions())
def test_session_of_a_page_prints_what_the_page_shows(page, session, tmp_path, new_user):
    if any("--into-existing" in command for command, _shown in session):
        (tmp_path / "ansible.cfg").write_text("[defaults]\ninventory = hosts\n")
    answers = run_session(session, tmp_path, new_user)
    for command, shown in session:
        if command.startswith(INSTALLS):
            continue
        output, code = answers[command]
        assert code == 0, f"{page}: {command}: {output[-1500:]}"
        assert_shown(page, command, shown, output)


@pytest.mark.engine
@pytest.mark.hosts
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="booted hosts need root on Linux")
def test_tutorial_ends_as_it_says(tmp_path, new_user, gpufleet):
    session = [line for block in BLOCK.findall(TUTORIAL.read_text()) for line in read_session(block)]
    try:
        answers = run_session(session, tmp_path, new_user)
    finally:
        gpufleet("rehearse", "down", "--all", cwd=tmp_path / "fleet1")
    for command, (output, code) in answers.items():
        allowed = {0, 1} if command in NO_IS_RIGHT else {0}
        assert code in allowed, f"{command}: {output[-2000:]}"
    found, _code = answers["gpufleet nodes show blade02"]
    assert "quarantined" in found
    assert "the root filesystem is full" in found
    states, _code = answers["gpufleet nodes list"]
    assert states.count(" ready ") == 3
    # The README shows the same fleet.
    for block in re.findall(
        r"^```text\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    ):
        for command, shown in read_session(block):
            assert_shown("README.md", command, shown, answers[command][0])


def test_example_of_a_desktop_is_a_node_of_a_new_fleet(tmp_path, new_user, gpufleet):
    project = tmp_path / "fleet1"
    made = gpufleet("init", str(project), "--rack", "bench:1", "--yes", cwd=tmp_path, env=new_user)
    assert made.returncode == 0, made.stderr
    shutil.copy(ROOT / "docs/examples/desktop.yaml", project / "inventory")
    stack = project / "stacks/Pulumi.dev.yaml"
    stack.write_text(
        stack.read_text().replace("racks:\n", "racks:\n      - {name: desktop, template: small}\n")
    )
    page = (ROOT / "docs/gpu-desktop.md").read_text()
    commands = [shlex.split(line) for line in re.findall(r"^\$ gpufleet ([^#\n]*)", page, re.MULTILINE)]
    offline = [command for command in commands if command[0] in {"validate", "cost", "size"}]
    assert len(offline) == 3
    for command in [*offline, ["nodes", "sync", "-s", "dev"]]:
        result = gpufleet(*command, cwd=project, env=new_user)
        assert result.returncode == 0, (command, result.stdout, result.stderr)
    assert "desk1" in gpufleet("nodes", "list", cwd=project, env=new_user).stdout
