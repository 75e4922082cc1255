"""Fixtures that run Ansible in a separate process and project, without an ansible.cfg."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(sys.executable).parent


@pytest.fixture
def rack_project(tmp_path, repo_root):
    """Return a project with racks only: Pulumi.yaml, stacks and inventory."""
    target = tmp_path / "project"
    for part in ("stacks", "inventory"):
        shutil.copytree(repo_root / part, target / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(repo_root / "Pulumi.yaml", target)
    return target


@pytest.fixture
def ansible(rack_project, clean_env):
    """Run one of Ansible's programs in the project: ``ansible("ansible-inventory", "--list", …)``."""

    settings = {
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "False",
        "ANSIBLE_INJECT_FACT_VARS": "False",
    }

    def run(program, *arguments, cwd=rack_project, **env):
        return subprocess.run(
            [PROGRAMS / program, *map(str, arguments)],
            cwd=cwd, env=clean_env | settings | env,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def list_inventory(ansible):
    """Return the parsed ``ansible-inventory --list``."""

    def read(*arguments, **env):
        result = ansible("ansible-inventory", "-i", "inventory", "--list", *arguments, **env)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return read


@pytest.fixture
def run_play(ansible, tmp_path):
    """Run tasks on hosts over Ansible's local connection with the registry's callback plugin."""

    def run(*tasks, limit="blade01", **env):
        head = {"hosts": "all", "gather_facts": False, "connection": "local"}
        book = tmp_path / "play.yml"
        python = {"ansible_python_interpreter": sys.executable}
        book.write_text(json.dumps([head | {"vars": python, "tasks": list(tasks)}]))
        callbacks = {"ANSIBLE_CALLBACKS_ENABLED": "gpufleet.fleet.registry"} | env
        return ansible("ansible-playbook", "-i", "inventory", "--limit", limit, book, **callbacks)

    return run
