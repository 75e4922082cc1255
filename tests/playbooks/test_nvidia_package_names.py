"""Test the package names that the NVIDIA roles compute from a plan, without a host."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROLES = Path(__file__).resolve().parents[2] / "modules/ansible_collections/gpufleet/fleet/roles"
DRIVER = "580.126.20"


@pytest.fixture
def render_texts(tmp_path, clean_env):
    """Run tasks on localhost; return the process."""

    def run(variables, *tasks):
        head = {"hosts": "localhost", "gather_facts": False, "connection": "local", "vars": variables}
        book = tmp_path / "play.yml"
        book.write_text(json.dumps([head | {"tasks": list(tasks)}]))
        argv = [Path(sys.executable).parent / "ansible-playbook", "-i", "localhost,", book]
        return subprocess.run(
            argv, cwd=tmp_path, env=clean_env, capture_output=True, text=True, timeout=120, check=False
        )

    return run


def role_texts(role):
    return {"ansible.builtin.include_vars": {"file": str(ROLES / role / "vars/main.yml")}}


def plan(**more):
    fabric = {"packages": [{"name": "nvidia-fabricmanager", "version": f"{DRIVER}-1"}, {"name": "nvlsm"}]}
    return {"vendor": "nvidia", "action": "install", "branch": "580", "fabric_manager": fabric, **more}


def test_package_without_an_exact_version_is_requested_by_name(render_texts):
    """Boards of fourth generation NVSwitches: nvlsm has its own versions, so the plan has none."""
    open_one = plan()["fabric_manager"]["packages"][1] | {"version": None}
    driver_plan = plan(version=DRIVER)
    driver_plan["fabric_manager"]["packages"][1] = open_one
    result = render_texts(
        {
            "nvidia_fabric_manager_plan": driver_plan,
            "nvidia_fabric_manager_driver": {"state": {"installed": DRIVER}},
        },
        role_texts("nvidia_fabric_manager"),
        {
            "ansible.builtin.assert": {
                "that": [
                    f"nvidia_fabric_manager_present == ['nvidia-fabricmanager={DRIVER}-1', 'nvlsm']",
                    "nvidia_fabric_manager_conflicting_version == ''",
                ]
            }
        },
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("version", "refused"), [(None, True), (DRIVER, False)])
def test_nothing_is_installed_while_the_exact_version_is_unknown(render_texts, version, refused):
    repository = {"name": "nvidia-cuda", "uri": "https://repo.example/debian12"}
    packages = [{"name": "nvidia-driver-pinning-580"}, {"name": "nvidia-open", "version": version}]
    driver_plan = plan(version=version, packages=packages, repositories=[repository])
    result = render_texts(
        {"nvidia_driver_plan": driver_plan, "nvidia_driver_before": {"rolled_back_from": {}}},
        role_texts("nvidia_driver"),
        {"ansible.builtin.include_tasks": str(ROLES / "nvidia_driver/tasks/exact.yml")},
    )
    assert (result.returncode != 0) == refused, result.stdout + result.stderr
    text = " ".join(result.stdout.split())
    assert ("no nvidia-open of branch 580; nothing was installed" in text) == refused
    assert ("reaches https://repo.example/debian12, or request another branch" in text) == refused
