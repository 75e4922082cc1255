"""Test driver changes that need a restart, on a booted host whose kernel, firmware and daemons refuse like real ones.

The host is a container, which loads no module: files/nvidia_kernel.sh answers for its kernel and its firmware, and
systemd really starts the daemons of the fake packages. Tests run in order: each begins with what the last one left.
"""

from __future__ import annotations

import subprocess
from itertools import groupby
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PLAYBOOKS = HERE.parents[1] / "playbooks"
HOST = "nv02"
OLD, NEW = "570.172.08", "580.126.20"
DAEMONS = ("nvidia-persistenced", "nvidia-fabricmanager")
PROGRAMS = "boot modprobe modinfo update-initramfs systemd-detect-virt mokutil dkms"
STATE = "/etc/gpufleet-rehearsal/kernel"
SECURE_BOOT = "/etc/gpufleet-rehearsal/sys/firmware/efi/efivars"
SETUP = f"""
set -e
mkdir -p {STATE} /lib/modules/$(uname -r)/build
for name in {PROGRAMS}; do ln -sf /usr/local/lib/nvidia_kernel /usr/local/sbin/$name; done
cat >/etc/systemd/system/fake-kernel.service <<'UNIT'
[Unit]
DefaultDependencies=no
After=local-fs.target
Before=sysinit.target
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/boot
[Install]
WantedBy=sysinit.target
UNIT
systemctl enable --quiet fake-kernel && boot
"""


@pytest.fixture(scope="module")
def host(lab):
    """Give a host with eight cards that nouveau holds, and no driver."""
    lab.add({HOST: {"kind": "servers", "accelerators": [{"model": "H100 SXM5 80GB", "count": 8}]}})
    host = lab.host(HOST)
    program = (HERE / "files/nvidia_kernel.sh").read_text().replace("'", "'\\''")
    host.check_output(
        f"printf %s '{program}' >/usr/local/lib/nvidia_kernel; chmod 755 /usr/local/lib/nvidia_kernel"
    )
    host.check_output(SETUP)
    return host


def run_play(lab, branch, play="drivers", **more):
    software = {"driver": {"vendor": "nvidia", "branch": branch}}
    variables = {
        "gpufleet_software": software,
        "restart_timeout_seconds": 300,
        "nvidia_driver_mok_password": "",
    }
    run = lab.run(PLAYBOOKS / f"{play}.yml", limit=HOST, extra_vars={**variables, **more})
    print(run.failure_text(HOST))  # pytest shows it where a test fails
    return run


def loaded(host):
    return host.run("cat /etc/gpufleet-rehearsal/sys/module/nvidia/version").stdout.strip()


def boot_start(host):
    """Return when the host's first process started: a container has the boot id of its host."""
    return host.check_output("cut -d ' ' -f 22 /proc/1/stat")


def daemon_states(host):
    return [host.run(f"systemctl is-active {name}").stdout.strip() for name in DAEMONS]


def decisions(run):
    """Return the codes and actions in the order in which they were read, equal neighbours once."""
    states = [result.output["state"] for result in run.results_of(HOST) if "state" in result.output]
    pairs = [
        (state["decision"]["code"], state["decision"]["action"]) for state in states if "decision" in state
    ]
    return [pair for pair, _ in groupby(pairs)]


ALONE = f"""
- hosts: {HOST}
  become: true
  vars: {{nvidia_driver_branch: "570", nvidia_driver_repositories: []}}
  roles: [gpufleet.fleet.nvidia_driver]
"""


def test_role_alone_plans_and_installs_without_anything_else_of_gpufleet(lab, host):
    folder = lab.home / "alone"
    folder.mkdir(exist_ok=True)
    (folder / "play.yml").write_text(ALONE)
    (folder / "hosts").write_text(f"{HOST} ansible_host={lab.address(HOST)} ansible_user=root\n")
    env = {name: value for name, value in lab.env().items() if not name.startswith("GPUFLEET_")}
    del env["ANSIBLE_CONFIG"]
    env["ANSIBLE_INJECT_FACT_VARS"] = "false"  # every role refuses to run otherwise
    command = ["ansible-playbook", "-i", "hosts", "play.yml"]
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert f"restart needed: nouveau holds the cards, driver {OLD} is installed" in run.stdout
    assert host.package("nvidia-open").version == f"{OLD}-1"
    assert "nvidia-open" in host.check_output("apt-mark showhold").split()


def test_daemons_wait_for_the_restart_that_replaces_nouveau(lab, host):
    run = run_play(lab, "570")
    assert run.failure_text(HOST) is None
    assert decisions(run) == [("nouveau", "restart"), ("ready", "ready")]
    assert (loaded(host), daemon_states(host)) == (OLD, ["active", "active"])


PARTS = f"""
- name: Parts of the driver
  hosts: {HOST}
  become: true
  gather_facts: false
  vars:
    nvidia_gpudirect_plan:
      vendor: nvidia
      action: keep
      origin: vendor
      gpudirect:
        - {{name: nvidia-gds-12-8, version: 12.8.1-1}}
        - {{name: nvidia-fs-dkms}}
        - {{name: gdrdrv-dkms}}
        - {{name: gdrcopy-tests}}
  roles: [gpufleet.fleet.nvidia_gpudirect]
  post_tasks:
    - name: Show what does not work
      ansible.builtin.debug: {{msg: "{{{{ nvidia_gpudirect_not_applied }}}}"}}
"""
IMEX = f"""
- name: IMEX
  hosts: {HOST}
  become: true
  gather_facts: false
  vars:
    nvidia_fabric_manager_imex_nodes: [192.0.2.1, 192.0.2.2]
    nvidia_fabric_manager_plan:
      vendor: nvidia
      action: keep
      origin: vendor
      version: {OLD}-1
      fabric_manager: {{packages: [{{name: nvidia-imex-570, version: {OLD}-1}}], units: [nvidia-imex.service]}}
  roles: [gpufleet.fleet.nvidia_fabric_manager]
"""


def not_working(run):
    return next(r.output["msg"] for r in run.results_of(HOST) if r.task == "Show what does not work")


def test_gds_and_gdrcopy_are_built_once_loaded_and_checked(lab, host):
    """Debian's plan has no GPUDirect Storage: the role runs alone, with a plan of Ubuntu's."""
    before = lab.snapshot(HOST)
    assert lab.run(PARTS, check=True).failure_text(HOST) is None
    assert lab.snapshot(HOST) == before
    first, second = lab.run(PARTS), lab.run(PARTS)
    assert (first.failure_text(HOST), not_working(first)) == (None, {})
    assert (second.failure_text(HOST), second.changed_tasks(HOST)) == (None, [])
    builds = host.check_output(f"cat {STATE}/builds").splitlines()
    assert sorted(builds) == [f"gdrdrv {OLD}", f"nvidia-fs {OLD}"]
    held_names = host.check_output("apt-mark showhold").split()
    assert {"nvidia-gds-12-8", "nvidia-fs-dkms", "gdrdrv-dkms", "gdrcopy-tests"} <= set(held_names)

    module = "/lib/modules/$(uname -r)/updates/dkms/nvidia-fs.ko"  # as if built for another driver
    host.check_output(f"echo 1.0 >{module}; rm -r /dev/gdrdrv /etc/gpufleet-rehearsal/sys/module/nvidia_fs")
    assert not_working(lab.run(PARTS)) == {
        "gds": "gdscheck -p, status 0: nvidia-fs driver is not loaded",
        "gdrcopy": "gdrcopy_sanity, status 1: gdr_open error: Is gdrdrv driver installed and loaded?",
    }
    host.check_output(f"echo {OLD} >{module}; touch /dev/gdrdrv")


def test_upgrade_and_rollback_restart_into_their_own_module(lab, host):
    software = {"driver": {"vendor": "nvidia", "branch": "580"}, "gdrcopy": True}
    for branch, play, version in (("580", "drivers", NEW), ("580", "driver_rollback", OLD)):
        before = loaded(host)
        settings = {"gpufleet_gpu_settings": {"power_limit": 500}}
        run = run_play(lab, branch, play, gpufleet_software=software, **settings)
        assert run.failure_text(HOST) is None
        assert ("old_module", "restart") in decisions(run)
        assert decisions(run)[-1] == ("ready", "ready")
        assert (before, loaded(host)) == ({OLD: NEW, NEW: OLD}[version], version)
        assert daemon_states(host) == ["active", "active"]
        assert host.check_output(f"tail -n 1 {STATE}/builds") == f"gdrdrv {version}"
        assert host.run("gdrcopy_sanity").rc == 0
        if play == "drivers":  # this template has no gds
            assert "Report to the registry which settings are not in force" in [
                r.task for r in run.results_of(HOST, "ok")
            ]
            assert not host.package("nvidia-fs-dkms").is_installed
            assert not host.package("nvidia-gds-12-8").is_installed


def test_imex_starts_with_its_nodes_and_the_module_of_its_version(lab, host):
    first, second = lab.run(IMEX), lab.run(IMEX)
    assert (first.failure_text(HOST), host.service("nvidia-imex").is_running) == (None, True)
    assert (second.failure_text(HOST), second.changed_tasks(HOST)) == (None, [])
    nodes = host.file("/etc/nvidia-imex/nodes_config.cfg").content_string
    assert nodes == "192.0.2.1\n192.0.2.2\n"
    start = host.check_output("systemctl show nvidia-imex -p ExecMainStartTimestampMonotonic")
    changed = lab.run(IMEX, extra_vars={"nvidia_fabric_manager_imex_nodes": ["192.0.2.1"]})
    assert changed.failure_text(HOST) is None
    assert host.check_output("systemctl show nvidia-imex -p ExecMainStartTimestampMonotonic") != start
    other = host.run(
        f"echo {NEW} >/etc/gpufleet-rehearsal/sys/module/nvidia/version;"
        " nvidia-imex -c /etc/nvidia-imex/config.cfg; status=$?;"
        f" echo {OLD} >/etc/gpufleet-rehearsal/sys/module/nvidia/version; exit $status"
    )
    assert (other.rc, "is not matching with current GPU driver version" in other.stderr) == (1, True)


def test_unconfirmed_key_fails_with_what_to_do_and_does_not_restart_again(lab, host):
    host.check_output(
        f"touch {STATE}/secure-boot; mkdir -p /var/lib/dkms {SECURE_BOOT};"
        f" touch /var/lib/dkms/mok.pub;"
        f" printf '\\6\\0\\0\\0\\1' >{SECURE_BOOT}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    )
    again = {"nvidia_driver_again": True}
    missing = run_play(lab, "580", **again)
    assert missing.failure_text(HOST) is None
    for name in ("nvidia-imex-570", "gdrdrv-dkms", "gdrcopy-tests"):  # no longer requested
        assert not host.package(name).is_installed
    assert decisions(missing)[-1] == ("key_missing", "blocked")
    assert (loaded(host), not missing.results_of(HOST, "failed")) == (
        OLD,
        True,
    )  # a restart would lose this driver

    pending = run_play(lab, "580", nvidia_driver_mok_password="only-once-12")
    assert ("key_pending", "restart") in decisions(pending)
    assert "nobody confirmed the key at the console during this boot" in pending.failure_text(HOST)
    assert loaded(host) == ""

    start = boot_start(host)
    assert run_play(lab, "580", "reboot").failure_text(HOST) is None
    assert boot_start(host) == start

    host.check_output(f"touch {STATE}/console")
    confirmed = run_play(lab, "580", "reboot", gpufleet_reboot_always=True)
    assert confirmed.failure_text(HOST) is None
    assert (loaded(host), daemon_states(host)) == (NEW, ["active", "active"])


def test_module_is_loaded_and_daemons_are_started_without_a_restart(lab, host):
    start = boot_start(host)
    host.check_output("systemctl stop nvidia-persistenced nvidia-fabricmanager")
    host.check_output("rm -r /etc/gpufleet-rehearsal/sys/module/nvidia")
    run = run_play(lab, "580")
    assert run.failure_text(HOST) is None
    assert decisions(run)[-1] == ("ready", "ready")
    assert (loaded(host), daemon_states(host)) == (NEW, ["active", "active"])
    assert boot_start(host) == start


def test_driver_of_an_image_is_verified_and_left_alone(lab, host):
    """A runfile leaves the module and nvidia-smi, and no package."""
    host.check_output(
        "cp /usr/bin/nvidia-smi /usr/local/bin/ && DEBIAN_FRONTEND=noninteractive apt-get purge -y -qq"
        " --allow-change-held-packages '^nvidia-' >/dev/null && mkdir -p /usr/src/fake-nvidia-open"
        f" && echo {NEW}-1 >/usr/src/fake-nvidia-open/version"
    )
    before = lab.snapshot(HOST)
    run = lab.run(PLAYBOOKS / "drivers.yml", limit=HOST)
    assert run.failure_text(HOST) is None
    state = next(r.output["state"] for r in run.results_of(HOST) if "tell the registry" in r.task)
    assert (state["managed_by"], state["installed"], state["smi"]["gpus"]) == ("elsewhere", NEW, 8)
    assert lab.snapshot(HOST) == before

    host.check_output("printf '#!/bin/sh\necho No devices were found; exit 6\n' >/usr/local/bin/nvidia-smi")
    failure = lab.run(PLAYBOOKS / "drivers.yml", limit=HOST).failure_text(HOST)
    assert "the driver that came with this host's image does not work: nvidia-smi: No devices" in failure
