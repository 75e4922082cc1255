"""Install Debian 13's own ROCm on a booted host, as planned, and run its rocminfo: 775 MB of packages, 4.7 GB of disk.

`make rocm` runs this file; its name keeps it out of `make test`.
"""

from __future__ import annotations

import re

import pytest

PLAY = """
- name: ROCm of Debian 13
  hosts: rocm13
  gather_facts: false
  become: true
  vars:
    gpufleet_software: {driver: {vendor: amd}, rocm: "5.7"}
  tasks:
    - name: Cards
      gpufleet.fleet.hardware:
      register: amd_hardware
    - name: Plan
      gpufleet.fleet.driver_plan:
        hardware: "{{ amd_hardware.hardware }}"
        requested_software: "{{ gpufleet_software }}"
      register: amd_planned
    - name: Use the plan
      ansible.builtin.set_fact:
        driver_plan: "{{ amd_planned.plan }}"
    - name: ROCm
      ansible.builtin.import_role:
        name: gpufleet.fleet.rocm
    - name: What rocm found
      ansible.builtin.debug:
        msg: {plan: "{{ driver_plan }}", found: "{{ rocm_found }}", not_applied: "{{ rocm_not_applied }}"}
"""
HOST = {
    "rocm13": {
        "kind": "servers",
        "system": "debian-13",
        "accelerators": [{"model": "Instinct MI210"}],
    }
}


@pytest.fixture(scope="module")
def rocm_lab(make_lab):
    lab = make_lab("rocm")
    lab.up(HOST)
    return lab


@pytest.fixture(scope="module")
def rocm_runs(rocm_lab):
    """Return the run in check mode, the real one, and the second."""
    runs = (rocm_lab.run(PLAY, check=True), rocm_lab.run(PLAY), rocm_lab.run(PLAY))
    for run in runs:
        assert run.failure_text("rocm13") is None
    return runs


@pytest.fixture(scope="module")
def report(rocm_runs):
    return next(r.output["msg"] for r in rocm_runs[-1].results_of("rocm13") if r.task == "What rocm found")


def test_plan_takes_rocm_from_the_distribution(report):
    assert report["plan"]["origin"] == "distribution"
    assert report["plan"]["repositories"] == []


def test_every_planned_package_is_installed_from_debian(report, rocm_lab):
    host = rocm_lab.host("rocm13")
    names = [package["name"] for package in report["plan"]["rocm"]["packages"]]
    assert {"rocminfo", "hipcc"} <= set(names)
    for name in names:
        assert host.package(name).is_installed
        assert "FAKE" not in host.check_output("dpkg-query -W -f '${Description}' %s", name)


def test_rocminfo_runs_and_its_answer_is_reported(report, rocm_lab):
    assert report["found"]["rocminfo"] == "/usr/bin/rocminfo"
    said = rocm_lab.host("rocm13").run("rocminfo")
    text = re.sub(r"\x1b\[[0-9;]*m", "", said.stdout + said.stderr)
    last_line = [line for line in text.splitlines() if line.strip()][-1]
    # The lab's operator, whom no role of this play creates.
    assert report["not_applied"].pop("operator ops") == "there is no such user or group"
    assert report["not_applied"] == {
        "kfd": "there is no /dev/kfd: no amdgpu driver is loaded",
        "rocminfo": last_line,
    }


def test_hipcc_compiles_for_the_card(report, rocm_lab):
    """A program for the planned processor is built with Debian's compiler; no card is needed for that."""
    host = rocm_lab.host("rocm13")
    source = (
        "#include <hip/hip_runtime.h>\n__global__ void twice(int *n) { *n *= 2; }\nint main() { return 0; }\n"
    )
    host.check_output("printf %s > /root/twice.hip", source)
    [gfx] = report["plan"]["rocm"]["gfx"]
    host.check_output("hipcc -c --offload-arch=%s -o /root/twice.o /root/twice.hip", gfx)
    assert host.file("/root/twice.o").size > 0


def test_second_run_changes_nothing(rocm_runs):
    assert rocm_runs[1].changed("rocm13") > 0
    assert rocm_runs[2].changed_tasks("rocm13") == []
