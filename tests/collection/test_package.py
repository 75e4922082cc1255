"""Test the collection as users get it: from the wheel and from ansible-galaxy, in an environment without a checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
FLEET = ROOT / "modules/ansible_collections/gpufleet/fleet"
SKIPPED = {"__pycache__", ".ansible", "output"}
FILES = {
    path.relative_to(FLEET).as_posix()
    for path in FLEET.rglob("*")
    if path.is_file() and not SKIPPED & set(path.parts)
}
ROLES = sorted(path.name for path in (FLEET / "roles").iterdir())
VARIABLES = {
    "ansible_python_interpreter": sys.executable,
    "commission_probe": {"facts": {"os": "debian", "os_version": "12", "arch": "x86_64"}},
}
PLAY = """
- name: Use a role alone
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Limits
      ansible.builtin.import_role:
        name: gpufleet.fleet.hugepages_and_limits
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("galaxy")
    subprocess.run(
        [
            Path(sys.executable).with_name("ansible-galaxy"),
            "collection",
            "build",
            FLEET,
            "--output-path",
            folder,
        ],
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def run_in_empty_environment(tmp_path_factory, archive):
    """Return a function that runs Ansible with ansible-core, the installed collection and, if given, the wheel."""
    home = tmp_path_factory.mktemp("empty")
    collections = home / "collections"

    def run(*command, wheel=None):
        packages = home / ("with" if wheel else "without")
        if not packages.exists():
            packages.mkdir()
            if wheel:
                zipfile.ZipFile(wheel).extractall(packages)
        # Dependencies come from this environment. Its own gpufleet does not: Python reads no .pth file there.
        path = [str(packages), sysconfig.get_path("purelib")]
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        settings = {
            "HOME": str(home),
            "ANSIBLE_COLLECTIONS_PATH": str(collections),
            "ANSIBLE_INJECT_FACT_VARS": "False",
            "ANSIBLE_NOCOLOR": "1",
        }
        code = f"import sys; sys.path[:0] = {path!r}; from ansible.cli.{command[0]} import main; main()"
        return subprocess.run(
            [sys.executable, "-S", "-c", code, *command[1:]],
            cwd=home, env={**kept, **settings}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    installed = run("galaxy", "collection", "install", str(archive), "-p", str(collections), "--offline")
    assert installed.returncode == 0, installed.stderr
    (home / "play.yml").write_text(PLAY)
    return run


def test_wheel_and_archive_have_every_file(wheel, archive):
    prefix = "ansible_collections/gpufleet/fleet/"
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.removeprefix(prefix) for name in names if name.startswith(prefix)} >= FILES
    with tarfile.open(archive) as opened:
        members = {member.name for member in opened if member.isfile()}
    left_out = {name for name in FILES if name.startswith("tools/")} | {"galaxy.yml"}
    assert members >= FILES - left_out
    assert not members & left_out


def test_role_runs_from_the_installed_collection(run_in_empty_environment, wheel):
    arguments = ["-i", "localhost,", "-c", "local", "--check", "-e", json.dumps(VARIABLES), "play.yml"]
    result = run_in_empty_environment("playbook", *arguments, wheel=wheel)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "gpufleet.fleet.hugepages_and_limits" in result.stdout


def test_missing_package_is_one_line_with_the_remedy(run_in_empty_environment):
    arguments = ["-i", "localhost,", "-c", "local", "--check", "-e", json.dumps(VARIABLES), "play.yml"]
    result = run_in_empty_environment("playbook", *arguments)
    assert result.returncode == 2
    text = result.stdout + result.stderr
    assert "needs the Python package gpufleet on the controller: " in text
    assert "-m pip install 'gpufleet[registry]' (No module named 'gpufleet')" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("kind", ["role", "module", "filter", "inventory", "callback", "shell"])
def test_ansible_doc_shows_every_plugin_and_role_without_the_package(run_in_empty_environment, kind):
    result = run_in_empty_environment("doc", "-t", kind, "-l", "--json", "gpufleet.fleet")
    assert result.returncode == 0, result.stderr
    names = {name.removeprefix("gpufleet.fleet.") for name in json.loads(result.stdout)}
    if kind == "filter":
        assert {"application_files", "site_groups", "role_problem"} <= names
    else:
        folder = FLEET / "roles" if kind == "role" else FLEET / "plugins" / (kind + "s" * (kind == "module"))
        assert names == {path.stem for path in folder.iterdir() if path.name != "__pycache__"}
    assert "WARNING" not in result.stderr


def test_bounds_of_ansible_are_the_same_in_the_package_and_the_collection():
    bounds = YAML(typ="safe").load(FLEET / "meta/runtime.yml")["requires_ansible"]
    assert f'"ansible-core{bounds.removesuffix(".0")}"' in (ROOT / "pyproject.toml").read_text()
