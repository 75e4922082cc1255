"""Test the NVIDIA roles on a host with eight fake H100s: install, upgrade, failure and rollback."""

from __future__ import annotations

import json

import pytest

PLAYS = ("nvidia",)
HOST = "nv01"
OLD, NEW = "570.172.08-1", "580.126.20-1"
SET = (
    "nvidia-open",
    "nvidia-kernel-open-dkms",
    "nvidia-driver-cuda",
    "nvidia-persistenced",
)
# NVIDIA's name for it changed with branch 580.
MANAGERS = {"nvidia-fabricmanager-570": OLD, "nvidia-fabricmanager": NEW}


@pytest.fixture(scope="module")
def runs(converge_play):
    return converge_play("nvidia")


@pytest.fixture(scope="module")
def host(lab, runs):
    return lab.host(HOST)


def versions(host):
    """Return the versions of the driver and of whatever fabric manager is there."""
    packages = {name: host.package(name) for name in (*SET, *MANAGERS)}
    return {name: package.version for name, package in packages.items() if package.is_installed}


def package_set(version):
    """Return the set of a version: its fabric manager and the driver."""
    return {**dict.fromkeys(SET, version), **{name: at for name, at in MANAGERS.items() if at == version}}


def task_output(run, task):
    return next(result.output for result in run.results_of(HOST) if task in result.task)


def run_drivers_play(lab, branch, play="drivers", **more):
    """Run a play as `gpufleet configure --play` does, without its restarts."""
    software = {"driver": {"vendor": "nvidia", "branch": branch}, "cuda": "12.8"}
    variables = {
        "gpufleet_software": software,
        "gpufleet_drivers_restart": False,
    }
    return lab.run(lab_playbook(lab, play), limit=HOST, extra_vars={**variables, **more})


def lab_playbook(_lab, name):
    from pathlib import Path

    return Path(__file__).parents[2] / f"playbooks/{name}.yml"


def test_check_mode_works_and_the_second_run_changes_nothing(runs):
    runs.assert_idempotent()


def test_exact_versions_are_installed_and_held(host):
    assert versions(host) == package_set(OLD)
    held_packages = set(host.check_output("apt-mark showhold").split())
    assert {"nvidia-open", "nvidia-fabricmanager-570", "nvidia-persistenced"} <= held_packages


def test_nouveau_is_blocked_and_module_options_are_set(host):
    text = host.file("/etc/modprobe.d/gpufleet-nvidia.conf").content_string
    assert "blacklist nouveau\n" in text
    assert "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n" in text
    assert "options nvidia-current NVreg_RestrictProfilingToAdminUsers=0\n" in text  # Debian's name for it


def test_fabric_manager_is_enabled_and_not_started_without_a_module(host):
    unit = host.service("nvidia-fabricmanager")
    assert unit.is_enabled
    assert not unit.is_running  # test_driver_restart.py starts it
    assert "nvidia-fabricmanager.service" not in host.check_output("systemctl list-units --state=failed")


def test_persistence_daemon_is_enabled_with_persistence_mode(host):
    assert host.service("nvidia-persistenced").is_enabled
    dropin = host.file("/etc/systemd/system/nvidia-persistenced.service.d/gpufleet.conf").content_string
    assert "ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --persistence-mode" in dropin


def test_toolkit_is_installed_next_to_others_and_first_in_path(host):
    assert host.file("/usr/local/cuda-12.8/bin/nvcc").exists
    assert "release 12.8" in host.check_output("bash -lc 'nvcc --version'")


def test_mig_geometry_is_stored_for_every_boot(host):
    stored = json.loads(host.file("/etc/gpufleet/mig.json").content_string)
    assert len(stored["mig-configs"]["gpufleet"]) == 8
    assert stored["mig-configs"]["gpufleet"][0]["mig-devices"] == {"3g.40gb": 2}
    assert host.service("gpufleet-mig").is_enabled


def test_features_missing_in_a_container_are_reported(runs):
    not_applied = task_output(runs.second, "Show what was not applied")["msg"]
    assert "no module is built or loaded" in not_applied["module"]
    assert "couldn't communicate with the NVIDIA driver" in not_applied["mig"]


def test_driver_state_is_recorded_in_the_registry(runs):
    event = task_output(runs.first, "tell the registry")["gpufleet"]
    assert (event["event"], event["node"]) == ("drivers", HOST)
    assert event["facts"]["installed"] == "570.172.08"
    assert event["facts"]["plan"]["module"] == "open"


def test_failed_module_build_keeps_the_old_driver_and_is_reported(lab, host):
    host.check_output("echo 580.126.20-1 > /etc/gpufleet-rehearsal/dkms-fails")
    failure = run_drivers_play(lab, "580").failure_text(HOST)
    host.check_output("rm /etc/gpufleet-rehearsal/dkms-fails")
    assert "570.172.08 is back as it was" in failure
    assert versions(host) == package_set(OLD)
    assert host.check_output("dpkg --audit") == ""
    assert "nvidia-open" in host.check_output("apt-mark showhold").split()


def test_upgrade_records_the_old_driver_and_rollback_restores_it_permanently(lab, host):
    upgraded = run_drivers_play(lab, "580")
    assert upgraded.failure_text(HOST) is None
    assert versions(host) == package_set(NEW)
    events = [
        result.output["gpufleet"]
        for result in upgraded.results_of(HOST)
        if "tell the registry" in result.task
    ]
    assert (
        events[-1]["facts"]["fabric_manager"]["version"] == "580.126.20"
    )  # the last event has the complete set
    assert {"nvidia-open", "nvidia-fabricmanager"} <= set(events[-1]["facts"]["held"])
    stored = json.loads(host.file("/var/lib/gpufleet/drivers.json").content_string)
    assert stored["sets"][-1]["packages"]["nvidia-open"] == OLD

    assert run_drivers_play(lab, "580", "driver_rollback").failure_text(HOST) is None
    assert versions(host) == package_set(OLD)
    assert not host.package("nvidia-driver-pinning-580").is_installed

    second_run = run_drivers_play(lab, "580")
    assert "rollback left 580.126.20" in str(task_output(second_run, "tell the registry"))
    assert host.package("nvidia-open").version == OLD
