"""Test upgrades of the kernel on a booted host: Debian's apt, hooks, dkms and GRUB, fake kernels, an emulated boot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
HOST = "os01"
OLD, NEW = "6.1.90-1-fake", "6.1.91-1-fake"
FAULTS = "/etc/gpufleet-rehearsal"
RECORD = "/var/lib/gpufleet/kernels.json"
VARIABLES = {"os_upgrade_in_container": True, "restart_timeout_seconds": 300}
METAS = ("linux-image-fake", "linux-headers-fake")
INSTALL = f"""export DEBIAN_FRONTEND=noninteractive; apt-get install -y -qq --no-install-recommends \
  rehearsal-boot-loader rehearsal-dkms-module linux-image-fake=6.1.90-1 linux-headers-fake=6.1.90-1 >/dev/null
apt-mark hold {METAS[0]}; mkdir -p {FAULTS}"""


@pytest.fixture(scope="module")
def host(lab):
    """Give a host that runs the older kernel with its module, and holds the kernel's package."""
    lab.add({HOST: {"kind": "servers"}})
    lab.host(HOST).check_output(INSTALL)
    return lab.host(HOST)


def run_upgrade(lab, play="upgrade_os", *, check=False, **more):
    return lab.run(PLAYBOOKS / f"{play}.yml", limit=HOST, extra_vars={**VARIABLES, **more}, check=check)


def last_report(run):
    return run.results_of(HOST, "ok")[-1].output["gpufleet"]


def running_kernel(host):
    return host.check_output("uname -r")


def read_record(host):
    return json.loads(host.file(RECORD).content_string)


def held_packages(host):
    return host.check_output("apt-mark showhold").split()


def test_a_container_without_a_boot_loader_of_its_own_is_left_alone(lab, host):
    run = run_upgrade(lab, os_upgrade_in_container=False)
    assert run.failure_text(HOST) is None
    assert run.changed_tasks(HOST) == []
    report = last_report(run)["facts"]
    assert report["not_applied"] == {"kernel": f"a container runs the kernel of its host ({OLD})"}
    assert report["summary"] == f"keeps its kernel: a container runs the kernel of its host ({OLD})"


def test_check_reports_the_kernel_that_the_host_would_get(lab, host):
    report = last_report(run_upgrade(lab, check=True))
    assert (report["event"], report["facts"]["summary"]) == ("planned", f"would get kernel {NEW}; runs {OLD}")
    assert not host.file(f"/boot/vmlinuz-{NEW}").exists
    busy = last_report(run_upgrade(lab, check=True, gpufleet_is_busy=True))
    assert busy["facts"]["summary"].startswith("keeps its kernel: a job may run on it")


def test_a_kernel_whose_module_does_not_build_is_removed_with_the_reason(lab, host):
    host.check_output(f"echo {NEW} >{FAULTS}/dkms-fails")
    failure = run_upgrade(lab).failure_text(HOST)
    host.check_output(f"rm {FAULTS}/dkms-fails")
    assert f"Error! Bad return status for module build on kernel: {NEW}" in failure
    assert f"This host keeps kernel {OLD}; packages that dpkg has not finished: none" in failure
    assert host.check_output("dpkg --audit") == ""
    assert [host.package(name).version for name in METAS] == ["6.1.90-1", "6.1.90-1"]
    assert held_packages(host) == [METAS[0]]
    assert not host.file(f"/boot/vmlinuz-{NEW}").exists
    assert (running_kernel(host), read_record(host)["state"]) == (OLD, "refused")


def test_a_kernel_that_panics_leaves_the_host_with_the_earlier_one(lab, host):
    host.check_output(f"echo {NEW} >{FAULTS}/kernel-panics")
    failure = run_upgrade(lab).failure_text(HOST)
    host.check_output(f"rm {FAULTS}/kernel-panics")
    assert failure == f"Fail: kernel {NEW} did not start; the host is back with kernel {OLD}"
    assert host.file("/var/log/rehearsal-boot-loader.log").content_string == f"FAKE: kernel {NEW} panics\n"
    assert (running_kernel(host), read_record(host)["state"]) == (OLD, "failed")
    assert "next_entry" not in host.check_output("grub-editenv list")
    again = run_upgrade(lab)
    assert (again.failure_text(HOST), again.changed_tasks(HOST)) == (None, [])  # not tried a second time


def test_a_kernel_without_headers_is_refused_before_the_restart(lab, host):
    build = f"/lib/modules/{NEW}/build"
    host.check_output(f"dkms uninstall -m nvidia -v 580.126.20 -k {NEW} && mv {build} {build}.away")
    failure = run_upgrade(lab, os_upgrade_again=True).failure_text(HOST)
    host.check_output(f"mv {build}.away {build}")
    assert (
        f"kernel {NEW} is not ready: its headers are not installed; dkms has not installed nvidia" in failure
    )
    assert f"This host keeps kernel {OLD}" in failure
    assert running_kernel(host) == OLD


def test_a_kernel_with_its_module_becomes_the_default_after_it_passed(lab, host):
    run = run_upgrade(lab, os_upgrade_again=True)
    assert run.failure_text(HOST) is None
    assert any(
        "Build the driver modules" in task for task in run.changed_tasks(HOST)
    )  # the test before removed it
    assert running_kernel(host) == NEW
    assert " panic=30 " in host.file("/run/gpufleet-rehearsal/cmdline").content_string
    assert host.check_output(f"modinfo -k {NEW} -F vermagic nvidia").startswith(f"{NEW} ")
    assert not host.file("/etc/default/grub.d/60-gpufleet-kernel.cfg").exists
    assert host.file(f"/boot/vmlinuz-{OLD}").exists
    assert OLD.replace(".", r"\.").replace("-", r"\-") in host.check_output(
        "apt-config dump APT::NeverAutoRemove"
    )
    record = read_record(host)
    assert (record["state"], record["previous"], record["target"]) == ("passed", OLD, NEW)
    assert held_packages(host) == [METAS[0]]
    again = run_upgrade(lab)
    assert (again.failure_text(HOST), again.changed_tasks(HOST)) == (None, [])


def test_a_rollback_boots_the_earlier_kernel_and_stays(lab, host):
    run = run_upgrade(lab, "upgrade_os_rollback")
    assert run.failure_text(HOST) is None
    assert (running_kernel(host), read_record(host)["state"]) == (OLD, "rolled_back")
    again = run_upgrade(lab)
    assert (again.failure_text(HOST), again.changed_tasks(HOST)) == (None, [])
    second = run_upgrade(lab, "upgrade_os_rollback").failure_text(HOST)
    assert f"kernel {OLD} is running already" in second
