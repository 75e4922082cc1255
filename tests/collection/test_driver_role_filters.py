"""Filters of the drivers' roles, where the recorded values of test_role_values.py have no case."""

import pytest

from ansible_collections.gpufleet.fleet.plugins.filter import nvidia_driver
from ansible_collections.gpufleet.fleet.plugins.filter.cuda import plan_cuda_installation
from ansible_collections.gpufleet.fleet.plugins.filter.driver_plan import (
    needs_driver_installation,
    parse_package_names,
)
from ansible_collections.gpufleet.fleet.plugins.filter.driver_services import restored_daemon_units
from ansible_collections.gpufleet.fleet.plugins.filter.nvidia_mig import has_mig_failed

BARE_METAL = {"container": None, "headers": [], "packages": {}}
PLAN = {"vendor": "nvidia", "action": "install", "branch": "580", "version": "580.1", "packages": []}


def test_kept_driver_counts_as_installation_of_its_vendor_only():
    plan = {"vendor": "nvidia", "action": "keep", "cuda": {"version": "12.8"}, "fabric_manager": None}
    assert needs_driver_installation(plan, vendor="nvidia")
    assert needs_driver_installation(plan, vendor="nvidia", part="cuda")
    assert not needs_driver_installation(plan, vendor="nvidia", part="fabric_manager")
    assert not needs_driver_installation(plan, vendor="amd")


def test_package_names_leave_out_versions():
    assert parse_package_names(["nvidia-open=580.1-1", "nvlsm", "a=1=2"]) == ["nvidia-open", "nvlsm", "a"]


@pytest.mark.parametrize(
    ("packages", "expected"),
    [(["cuda-toolkit-12-8"], True), (["cuda-compiler-12-8=1"], True), (["libcuda-nvcc-1"], False)],
)
def test_only_packages_of_nvidia_bring_the_compiler(packages, expected):
    plan = {"cuda": {"version": "12.8", "packages": packages}}
    assert plan_cuda_installation(plan, removed=[])["has_compiler"] is expected


@pytest.mark.parametrize(
    ("plan", "state", "expected"),
    [
        ({}, {}, True),
        ({"headers": ["linux-headers-6.8"]}, {}, False),
        ({}, {"headers": ["linux-headers-6.8"]}, False),
        ({}, {"container": "systemd-nspawn"}, False),
        ({"action": "none"}, {}, False),
        ({"action": "refuse"}, {}, False),
        ({"action": "keep", "origin": "distribution"}, {}, True),
        # Seen on an H100 machine (2026-11-23): the image's kernel has no headers, and its driver 580.159.04 works.
        ({"action": "keep", "origin": "image", "version": "580.159.04"}, {}, False),
    ],
)
def test_module_needs_headers_of_the_running_kernel(plan, state, expected):
    assert nvidia_driver.is_missing_kernel_headers(PLAN | plan, state=BARE_METAL | state) is expected


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ({}, ""),
        ({"version": None, "action": "keep"}, ""),
        ({"version": None}, "no driver of branch 580; nothing was installed"),
        ({"version": None}, "reaches its archive, or request another branch"),
        (
            {"version": "", "repositories": [{"uri": "https://a"}, {"uri": "https://b"}]},
            "https://a, https://b",
        ),
        (
            {"version": None, "packages": [{"name": "nvidia-driver-pinning-580"}, {"name": "x"}]},
            "have no x of",
        ),
    ],
)
def test_missing_version_names_the_package_and_its_archives(plan, expected):
    message = nvidia_driver.missing_driver_version_reason(PLAN | plan)
    assert expected in message
    assert bool(message) == bool(expected)


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ({}, False),
        ({"problem": ""}, False),
        ({"problem": "No devices were found"}, False),
        ({"problem": "In use by another client"}, True),
    ],
)
def test_mig_fails_only_where_a_gpu_answers(report, expected):
    assert has_mig_failed(report) is expected


def test_imex_needs_a_channel_that_the_driver_creates():
    plan = {"fabric_manager": {"units": ["nvidia-imex.service"], "packages": []}}
    lines = nvidia_driver.nvidia_modprobe_config(plan, modules=["nvidia"], options={}).splitlines()
    assert lines[-1] == "options nvidia NVreg_CreateImexChannel0=1"
    lines = nvidia_driver.nvidia_modprobe_config(
        plan, modules=["nvidia"], options={"NVreg_CreateImexChannel0": 0}
    ).splitlines()
    assert lines[-1] == "options nvidia NVreg_CreateImexChannel0=0"
    assert "options" not in nvidia_driver.nvidia_modprobe_config(
        {"fabric_manager": None}, modules=["nvidia"], options={}
    )


@pytest.mark.parametrize(
    ("package", "unit"),
    [
        ("nvidia-imex-570", "nvidia-imex.service"),
        ("nvidia-fabricmanager-570", "nvidia-fabricmanager.service"),
    ],
)
def test_rollback_enables_the_fabric_daemon_that_the_restored_packages_have(package, unit):
    state = {
        "packages": {package: "570.1-1"},
        "persistence": None,
        "fabric_manager": {"version": "570.1", "enabled": False, "active": False},
        "decision": {"action": "restart", "reason": "old module"},
    }
    before = {"services": {"nvidia-imex.service": "running", "nvidia-fabricmanager.service": "running"}}
    assert restored_daemon_units(state, before=before) == [{"name": unit, "enabled": True}]
