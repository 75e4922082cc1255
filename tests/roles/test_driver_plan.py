"""Test `gpufleet configure --plan` on booted hosts: facts are read over SSH and nothing is changed."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files

import jsonschema
import pytest

# As in conftest.py: the shared lab boots each once.
SHARED = {
    "nv01": {"kind": "servers", "accelerators": [{"model": "H100 SXM5 80GB", "count": 8}]},
    "base01": {"kind": "servers"},
}


@pytest.fixture
def project(lab, repo_root, tmp_path):
    """Return a project with the lab's inventory."""
    lab.add(SHARED)
    root = tmp_path / "project"
    root.mkdir()
    shutil.copy(repo_root / "Pulumi.yaml", root)
    shutil.copytree(repo_root / "stacks", root / "stacks")
    (root / "playbooks").symlink_to(repo_root / "playbooks")
    lab._write_inventory()
    shutil.copytree(lab.home / "inventory", root / "inventory")
    return root


def test_plans_of_booted_hosts_are_as_expected(project, lab, gpufleet):
    before = {name: lab.snapshot(name) for name in SHARED}
    arguments = ("configure", "--plan", "--limit", "nv01,base01", "--json")
    result = gpufleet(*arguments, cwd=project, env=lab.env())
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    schema = json.loads((files("gpufleet.drivers") / "data" / "plans.schema.json").read_text())
    jsonschema.validate(document, schema)
    plans = {host["name"]: host["plan"] for host in document["hosts"]}
    assert plans["base01"]["action"] == "none"
    card = {"pci": "10de:2330", "name": "H100 SXM5 80GB", "architecture": "Hopper", "count": 8}
    assert plans["nv01"]["cards"] == [card]
    assert (plans["nv01"]["origin"], plans["nv01"]["module"]) == ("vendor", "open")
    offered = lab.host("nv01").check_output("apt-cache madison nvidia-open")
    exact = next(
        package["version"] for package in plans["nv01"]["packages"] if package["name"] == "nvidia-open"
    )
    assert f"| {exact} |" in offered
    assert plans["nv01"]["fabric_manager"]["packages"][0]["version"] == exact
    assert {name: lab.snapshot(name) for name in SHARED} == before
