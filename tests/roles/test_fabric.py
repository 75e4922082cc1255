"""Test InfiniBand and EFA packages from Debian, fake ports, and an installer with a checksum."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

PLAYS = ("fabric",)
INSTALL = (
    Path(__file__).resolve().parents[2]
    / "modules/ansible_collections/gpufleet/fleet/roles/efa/files/install.sh"
)
# FAKE aws-efa-installer: leaves the record that AWS's script leaves, and nothing else.
MAKE = """set -eu
mkdir -p /srv/efa/aws-efa-installer && cd /srv/efa
cat > aws-efa-installer/efa_installer.sh <<'END'
#!/bin/sh
mkdir -p /opt/amazon
printf '# EFA installer version: 1.47.0\\n# FAKE, called with %s\\n' "$*" > /opt/amazon/efa_installed_packages
END
chmod +x aws-efa-installer/efa_installer.sh
tar czf installer.tar.gz aws-efa-installer
sha256sum installer.tar.gz | cut -d ' ' -f 1
"""
PLAY = """
- name: EFA by AWS's installer
  hosts: base01
  gather_facts: false
  vars: {gpufleet_fabric: efa, efa_origin: installer}
  tasks:
    - ansible.builtin.import_role: {name: gpufleet.fleet.efa}
"""


def role_report(runs, task):
    return next(r.output["msg"] for r in runs.second.results_of("base01") if r.task == task)


@pytest.fixture(scope="module")
def base01(converge_play, lab):
    converge_play("fabric")
    return lab.host("base01")


def test_fabrics_converge_and_the_second_run_changes_nothing(converge_play):
    converge_play("fabric").assert_idempotent()


def test_diagnostic_tools_run(base01):
    devices = base01.run("ibv_devices")  # the words of a kernel without RDMA
    assert "device" in devices.stdout or "Failed to get IB devices list" in devices.stderr
    assert "fi_getinfo: -61" in base01.run("fi_info -p efa 2>&1").stdout
    assert {base01.package(name).is_installed for name in ("infiniband-diags", "perftest", "rdma-core")} == {
        True
    }
    assert not base01.package("opensm").is_installed


def test_memory_may_be_locked(base01):
    for name in ("rdma", "efa"):
        lines = base01.file(f"/etc/security/limits.d/60-gpufleet-{name}.conf").content_string.splitlines()
        assert lines[1:] == ["* - memlock unlimited", "root - memlock unlimited"]
    assert base01.file("/etc/modules-load.d/gpufleet-peermem.conf").contains("^nvidia-peermem$")


def test_fabric_ports_and_link_flaps_are_reported(converge_play):
    report = role_report(converge_play("fabric"), "What ib_tools found")
    assert [(port["port"], port["state"], port["rate_gbit"]) for port in report["ports"]] == [
        ("mlx5_0/1", "ACTIVE", 400.0),
        ("mlx5_1/1", "ACTIVE", 400.0),
    ]
    assert report["not_applied"] == {"mlx5_1/1": "went down 3 times since the driver was loaded"}


def test_machine_without_efa_is_reported(converge_play):
    report = role_report(converge_play("fabric"), "What efa found")
    assert report["found"]["cards"] == report["found"]["interfaces"] == "0"
    assert "1d0f:efa" in report["not_applied"]["interfaces"]


def test_hosts_without_a_fabric_are_not_changed(converge_play):
    runs = converge_play("fabric")
    assert runs.first.changed("amd01") == 0
    assert runs.first.results_of("amd01", "skipped")


def test_installer_without_a_checksum_is_refused(base01, lab):
    run = lab.run(PLAY, extra_vars={"efa_installer_version": "1.47.0"})
    assert "efa_installer_sha256" in run.failure_text("base01")
    assert run.changed("base01") == 0


def run_installer(host, checksum):
    command = ["sh", "-c", INSTALL.read_text(), "install", "apply", "1.47.0", checksum]
    return host.run(shlex.join([*command, "file:///srv/efa/installer.tar.gz", "--yes", "--skip-kmod"]))


def test_installer_runs_once_and_only_with_the_right_checksum(base01):
    right = base01.check_output(MAKE)
    refused = run_installer(base01, "0" * 64)
    assert refused.rc == 3
    assert f"has the checksum {right}" in refused.stderr
    assert not base01.file("/opt/amazon/efa_installed_packages").exists
    assert run_installer(base01, right).stdout == "installed 1.47.0\n"
    assert base01.file("/opt/amazon/efa_installed_packages").contains("called with --yes --skip-kmod")
    assert run_installer(base01, right).stdout == "kept 1.47.0\n"
    assert base01.run("ls -d /var/tmp/gpufleet-efa-*").rc != 0
