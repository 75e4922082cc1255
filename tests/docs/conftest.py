"""One rehearsed production fleet, the demo's, for the tests of its final state and of the documentation."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys

import pytest

NEEDS = "a rack of booted hosts needs root on Linux"


class RehearsedProject:
    """A project whose production stack was rehearsed by the demo; commands run as a user types them."""

    def __init__(self, root, env, demo):
        self.root, self.env, self.demo = root, env, demo

    @functools.cached_property
    def exports(self):
        """Return what ``gpufleet rehearse env`` prints for a shell: the same before every command."""
        command = [sys.executable, "-m", "gpufleet", "rehearse", "env", "-s", "production"]
        return subprocess.check_output(command, cwd=self.root, env=self.env, text=True)

    def run_command(self, command, timeout=600):
        """Run a command line in a shell that has evaluated ``gpufleet rehearse env``."""
        command_line = ["bash", "-o", "pipefail", "-c", f"{self.exports}\n{command}"]
        return subprocess.run(
            command_line,
            cwd=self.root,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def read(self, command):
        """Return a command's standard output as JSON; it must succeed."""
        result = self.run_command(command)
        assert result.returncode == 0, result.stderr[-2000:]
        return json.loads(result.stdout)


@pytest.fixture(scope="session")
def demo_project(shared_project, tmp_path_factory, clean_env, gpufleet):
    """Run the demo in a separate project; remove the rehearsal afterwards and verify that nothing is left."""
    if sys.platform != "linux" or os.geteuid():
        pytest.skip(NEEDS)
    root = tmp_path_factory.mktemp("demo") / "project"
    shutil.copytree(shared_project, root, symlinks=True, ignore=shutil.ignore_patterns(".gpufleet"))
    demo = gpufleet("rehearse", "demo", "-s", "production", cwd=root, timeout=1500)
    yield RehearsedProject(root, clean_env, demo)
    completed = gpufleet("rehearse", "down", "--all", cwd=root)
    assert completed.returncode == 0, completed.stderr
