"""Fixtures that many tests share: a project of their own, and the command line as a user meets it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
os.environ["GPUFLEET_PRICES"] = "embedded"  # not what the developer has imported
PROJECT_PARTS = ("Pulumi.yaml", "stacks", "inventory", "playbooks", "docs/examples", ".ci")


@pytest.fixture(scope="session")
def repo_root():
    """Return this checkout; tests read it and never write to it."""
    return ROOT


def make_project(target):
    """Copy what makes a gpufleet project to ``target`` and commit it there, so that git refs work."""
    for part in PROJECT_PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, target / part, ignore=shutil.ignore_patterns("__pycache__", ".ansible"))
        elif source.exists():
            shutil.copy(source, target / part)
    (target / "modules").mkdir(exist_ok=True)
    shutil.copytree(
        ROOT / "modules/gpufleet", target / "modules/gpufleet", ignore=shutil.ignore_patterns("__pycache__")
    )
    (target / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    (target / ".venv").symlink_to(Path(sys.executable).parents[1])
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-C", str(target)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "start"], check=True)
    return target


@pytest.fixture
def project(tmp_path):
    """Give a project of the test's own: a git repository with the shipped stacks, racks and playbooks."""
    target = tmp_path / "project"
    target.mkdir()
    return make_project(target)


@pytest.fixture(scope="session")
def shared_project(tmp_path_factory):
    """Give one project to a whole session, for tests that need an engine or hosts and put back what they edit."""
    return make_project(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="session")
def clean_env():
    """Return an environment that knows this Python and nothing of the person running the tests."""
    kept = ("HOME", "LANG", "USER", "TMPDIR", "XDG_CACHE_HOME", "SSL_CERT_FILE", "GOPROXY", "GOFLAGS")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    scripts = str(Path(sys.executable).parent)
    return env | {
        "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
        "VIRTUAL_ENV": str(Path(scripts).parent),
    }


@pytest.fixture(scope="session")
def gpufleet(clean_env):
    """Run ``gpufleet`` as its own process; returns the finished process with text output."""

    def run(*arguments, cwd, env=None, stdin=None, timeout=600):
        return subprocess.run(
            [sys.executable, "-m", "gpufleet", *map(str, arguments)],
            cwd=cwd, env=clean_env | (env or {}), input=stdin, capture_output=True, text=True, timeout=timeout,
            check=False,
        )  # fmt: skip

    return run
