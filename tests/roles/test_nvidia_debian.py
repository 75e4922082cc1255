"""Test Debian's non-free driver, really installed on a host with a fake T4 and no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet import burnin

pytestmark = pytest.mark.slow
PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
HOST = "t4"
REAL = ("nvidia-kernel-dkms", "libcuda1", "libnvidia-ml1", "nvidia-smi")


@pytest.fixture(scope="module")
def runs(lab):
    """Boot the host, plan and install twice; the template wants the distribution's packages, whose branch has ended."""
    lab.add({HOST: {"kind": "servers", "accelerators": [{"model": "T4", "count": 1}]}})
    variables = {"gpufleet_drivers_restart": False, "gpufleet_software": {"origin": "distribution"}}
    return [lab.run(PLAYBOOKS / "drivers.yml", limit=HOST, extra_vars=variables) for _ in range(2)]


@pytest.fixture(scope="module")
def host(lab, runs):
    return lab.host(HOST)


def test_driver_of_the_distribution_is_installed_once(runs):
    assert [run.failure_text(HOST) for run in runs] == [None, None]
    assert runs[1].changed_tasks(HOST) == []


def test_packages_are_from_debian_and_of_one_version(host):
    installed_versions = {host.package(name).version for name in REAL}
    assert len(installed_versions) == 1
    assert installed_versions.pop().startswith("535.")
    assert "FAKE" not in host.check_output("dpkg-query -W -f '${Description}' nvidia-smi nvidia-persistenced")
    assert set(REAL) <= set(host.check_output("apt-mark showhold").split())


def test_dkms_has_the_module_but_no_kernel_to_build_it_for(host, runs):
    assert host.run("dkms status").stdout.startswith("nvidia-current/535.")
    state = next(r.output["state"] for r in runs[1].results_of(HOST) if "tell the registry" in r.task)
    assert (state["loaded"], state["built"], state["container"]) == (None, None, "systemd-nspawn")
    facts = next(
        r.output["gpufleet"]["facts"] for r in runs[1].results_of(HOST) if "tell the registry" in r.task
    )
    assert "no headers are installed" in facts["not_applied"]["module"]


def test_nvidia_smi_is_genuine_and_finds_no_driver(host):
    result = host.run("nvidia-smi")
    assert result.rc == 9
    assert "couldn't communicate with the NVIDIA driver" in result.stdout


def test_persistence_daemon_is_enabled_and_does_not_run_without_a_device(host, runs):
    assert host.service("nvidia-persistenced").is_enabled
    assert not host.service(
        "nvidia-persistenced"
    ).is_running  # Debian's package tried before the drop-in was there
    dropin = host.file("/etc/systemd/system/nvidia-persistenced.service.d/gpufleet.conf").content_string
    assert "ConditionVirtualization=!container" in dropin
    assert "--user nvpd" in host.check_output("systemctl show nvidia-persistenced -p ExecStart")


def test_burn_in_reports_that_no_gpu_was_measured(lab, runs):
    run = lab.run(PLAYBOOKS / "burn_in.yml", limit=HOST, extra_vars={"gpufleet_burn_in": "always"})
    records = next(r.output["gpufleet"]["records"] for r in run.results_of(HOST) if "gpufleet" in r.output)
    report = burnin.judge_attempt(records, "gpu_server", "quick", rehearsal=True, is_configured=True)
    gpu = next(check for check in report.checks if check.name == "gpu_nvidia")
    assert gpu.outcome == "not_run"
    assert "NVIDIA driver" in gpu.reason
    assert report.verdict != "healthy"
