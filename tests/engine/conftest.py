"""Fixtures for tests with the real engine: a project and its rehearsed stacks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpufleet import engine
from gpufleet.rehearsal import Rehearsal

CASES = Path(__file__).resolve().parents[1] / "cases" / "engine"


@pytest.fixture
def load_recording():
    """Read one recorded document by name."""
    return lambda name: json.loads((CASES / f"{name}.json").read_text())


@pytest.fixture(scope="session")
def engine_project(shared_project, tmp_path_factory):
    """Give the engine tests a project of their own, in a folder whose name needs quoting."""
    target = tmp_path_factory.mktemp("engine") / "it's a project"
    shutil.copytree(shared_project, target, symlinks=True, ignore=shutil.ignore_patterns(".gpufleet"))
    return target


class Shell:
    """A shell in the project with a stack's rehearsal in its environment, as a user has it."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal
        self.root = rehearsal.root
        self.settings = rehearsal.settings_file

    def run(self, command: str, *, fails: bool = False) -> subprocess.CompletedProcess[str]:
        arguments = ["bash", "-c", f'eval "$(gpufleet rehearse env -s {self.rehearsal.stack})"\n{command}']
        result = subprocess.run(
            arguments, cwd=self.root, capture_output=True, text=True, timeout=300, check=False
        )
        assert bool(result.returncode) is fails, result.stdout[-2000:] + result.stderr[-2000:]
        return result

    def preview(self) -> list[engine.PreviewStep]:
        """Return the steps of a preview with unchanged resources in it."""
        result = self.run(f"pulumi preview -s {self.rehearsal.stack} --json --show-sames")
        return engine.parse_pulumi_preview(engine.parse_engine_json(result.stdout, "pulumi preview"))

    def state(self) -> list[engine.StateResource]:
        result = self.run(f"pulumi stack export -s {self.rehearsal.stack}")
        return engine.parse_stack_state(engine.parse_engine_json(result.stdout, "pulumi stack export"))

    def up(self) -> None:
        self.run(f"pulumi up -s {self.rehearsal.stack} --yes --skip-preview")


@pytest.fixture(scope="session")
def build_shell(clean_env):
    """Return a function that gives a shell in a rehearsal that is set up already."""
    os.environ["PATH"] = clean_env["PATH"]
    return Shell


@pytest.fixture(scope="session")
def rehearse_stack(engine_project, clean_env):
    """Return a shell in a stack's rehearsal, brought up once for all tests and removed at the end."""
    os.environ["PATH"] = clean_env["PATH"]
    shells: dict[str, Shell] = {}

    def bring(stack: str) -> Shell:
        if stack not in shells:
            rehearsal = Rehearsal(engine_project, stack)
            rehearsal.set_up(lambda _line: None)
            shells[stack] = Shell(rehearsal)
        return shells[stack]

    yield bring
    for shell in shells.values():
        shell.rehearsal.tear_down(lambda _line: None)


@pytest.fixture(scope="session")
def build_stack(rehearse_stack):
    """Return a shell in a rehearsal whose stack is built."""
    ready: dict[str, Shell] = {}

    def build(stack: str) -> Shell:
        if stack not in ready:
            ready[stack] = rehearse_stack(stack)
            ready[stack].up()
        return ready[stack]

    return build


@pytest.fixture
def edit_settings():
    """Change a text in a stack's settings for one test; put the file back afterwards."""
    preserved: dict[Path, str] = {}

    def edit(shell: Shell, old: str, new: str) -> None:
        text = preserved.setdefault(shell.settings, shell.settings.read_text())
        assert old in text
        shell.settings.write_text(text.replace(old, new, 1))

    yield edit
    for path, text in preserved.items():
        path.write_text(text)


@pytest.fixture
def other_program(build_stack):
    """Put another program in the project's place for one test."""
    shell = build_stack("poc")
    path = shell.root / "stacks" / "__main__.py"
    preserved = path.read_text()
    yield lambda text: (path.write_text(text), shell)[1]
    path.write_text(preserved)
