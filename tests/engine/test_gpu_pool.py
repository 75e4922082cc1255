"""Test GpuPool in a Pulumi program of its own: gpufleet from its wheel, in a new environment, on the real engine."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine
EXAMPLE = Path(__file__).resolve().parents[2] / "docs/examples/gpu-pool"


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """Return a new environment with the wheel. Its dependencies are those of this one, without its packages."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder)
    python = folder / "bin/python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        wheel,
    ]
    subprocess.run(install, check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return folder


class Program:
    """The example in a folder of its own, rehearsed."""

    def __init__(self, folder, environment, inherited):
        self.folder, self.stack = folder, "dev"
        paths = [str(environment / "bin"), *inherited["PATH"].split(os.pathsep)[1:]]
        self.variables = {**inherited, "PATH": os.pathsep.join(paths), "VIRTUAL_ENV": str(environment)}

    def run(self, command, *, fails=False):
        """Run a command in the rehearsal's environment."""
        script = f'eval "$(gpufleet rehearse env -s {self.stack})"\n{command}'
        return self.run_outside(script, fails=fails)

    def run_outside(self, script, *, fails=False):
        result = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False
        )  # fmt: skip
        assert bool(result.returncode) is fails, result.stdout[-2000:] + result.stderr[-2000:]
        return result.stdout

    def edit(self, old, new):
        program = self.folder / "__main__.py"
        text = program.read_text()
        assert old in text
        program.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def program(environment, clean_env, tmp_path_factory):
    folder = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("program") / "gpu-pool")
    example = Program(folder, environment, clean_env)
    example.run_outside("gpufleet rehearse up -s dev")
    yield example
    example.run_outside("gpufleet rehearse down -s dev")


def test_example_has_at_most_fifteen_lines():
    lines = [line for line in (EXAMPLE / "__main__.py").read_text().splitlines() if line and line[0] != "#"]
    assert len(lines) <= 15


def test_example_runs_from_the_installed_wheel(program, environment):
    origin = program.run_outside("python -c 'import gpufleet; print(gpufleet.__file__)'")
    assert Path(origin.strip()).is_relative_to(environment)
    program.run("pulumi up -s dev --yes --skip-preview")
    nodes = json.loads(program.run("pulumi stack output nodes -s dev --json"))
    assert [(node["name"], node["pool"], node["purchase"]) for node in nodes] == [
        ("dev-render-1", "render", "spot"),
        ("dev-render-2", "render", "spot"),
    ]
    program.run("gpufleet nodes sync -s dev")
    listed = json.loads(program.run("gpufleet nodes list --json"))
    assert [node["name"] for node in listed] == ["dev-render-1", "dev-render-2"]
    again = json.loads(program.run("pulumi preview -s dev --json --show-sames"))
    assert set(again["changeSummary"]) == {"same"}
    refused = program.folder / "__main__.py"
    text = refused.read_text()
    refused.write_text(text.replace('"g2-standard-4"', '"g2-standart-4"'))
    output = program.run("pulumi preview -s dev", fails=True)
    refused.write_text(text)
    assert '__main__.py:11: GpuPool "render": machine: ' in output
    assert "g2-standart-4" in output
    assert "Traceback" not in output
    program.run("pulumi destroy -s dev --yes --skip-preview")
