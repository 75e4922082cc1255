"""Test the base roles on booted hosts: a server, one with Debian 13, and a blade."""

from __future__ import annotations

import socket

import pytest

PLAYS = ("base",)
HOSTS = ("base01", "base13", "blade01")


@pytest.fixture(scope="module")
def base_runs(converge_play):
    return converge_play("base")


@pytest.fixture(params=HOSTS)
def host(request, base_runs, lab):
    return lab.host(request.param)


def not_applied(run, name, task):
    """Return what a task's module reported as not applied."""
    return next(r.output["not_applied"] for r in run.results_of(name) if r.task == task)


def test_every_role_converges_and_the_second_run_changes_nothing(base_runs):
    base_runs.assert_idempotent()
    assert base_runs.first.changed("base01") >= 6


def test_debian_13_host_has_the_settings_of_its_release(base_runs, lab):
    """Its PAM reads the locale and the limits of a session; no program warns about what the roles wrote."""
    host = lab.host("base13")
    assert host.system_info.codename == "trixie"
    assert not host.file("/etc/timezone").exists
    assert host.run("systemctl --failed --no-legend").stdout == ""
    assert "deprecated" not in host.run("sshd -T").stderr.lower()
    assert lab.host("base13", user="ops").check_output("sudo -n id -u") == "0"


def test_host_name_time_zone_and_locale_are_set(host, lab, base_runs):
    name = host.check_output("hostname")
    assert name in HOSTS
    assert f"127.0.1.1 {name}" in host.file("/etc/hosts").content_string
    assert host.file("/etc/localtime").linked_to == "/usr/share/zoneinfo/Etc/UTC"
    locale_file = "/etc/locale.conf" if name == "base13" else "/etc/default/locale"
    assert host.file(locale_file).content_string.endswith("LANG=C.UTF-8\n")
    for package in ("smartmontools", "pciutils", "ethtool"):
        assert host.package(package).is_installed


def test_time_synchronization_is_enabled_or_reported_as_unavailable(host, base_runs):
    assert host.service("systemd-timesyncd").is_enabled
    name = host.check_output("hostname")
    units = not_applied(base_runs.first, name, "Configure time synchronization")["units"]
    assert "Condition" in units["systemd-timesyncd.service"]


def test_operators_can_log_in(base_runs, lab):
    for name in HOSTS:
        assert lab.host(name, user="ops").check_output("id -un") == "ops"
        assert "NOPASSWD" in lab.host(name).check_output("sudo -l -U ops")
        assert lab.host(name, user="ops").check_output("sudo -n id -u") == "0"


def test_sshd_has_the_configured_settings(host):
    effective = host.check_output("sshd -T")
    assert "passwordauthentication no" in effective
    assert "permitrootlogin without-password" in effective


def test_rare_file_systems_are_disabled_except_that_of_the_boot_partition(host):
    text = host.file("/etc/modprobe.d/60-gpufleet.conf").content_string
    assert "install cramfs /bin/false" in text
    assert "fat" not in text


def test_unattended_upgrades_include_security_and_exclude_drivers(host):
    seen = host.check_output("apt-config dump")
    assert 'APT::Periodic::Unattended-Upgrade "1";' in seen
    origins = [
        line for line in seen.splitlines() if line.startswith("Unattended-Upgrade::Origins-Pattern:: ")
    ]
    assert origins
    assert all("label=Debian-Security" in line for line in origins)
    # The program's own reading of it, from the Python module that it is.
    script = (
        "import importlib.machinery as m, importlib.util as u, apt_pkg; apt_pkg.init();"
        "l = m.SourceFileLoader('uu', '/usr/bin/unattended-upgrade');"
        "uu = u.module_from_spec(u.spec_from_loader('uu', l)); l.exec_module(uu);"
        "held = apt_pkg.config.value_list('Unattended-Upgrade::Package-Blacklist');"
        "names = ('nvidia-driver', 'libnvidia-ml1', 'linux-image-6.1.0-18-amd64', 'openssl');"
        "print(*(n for n in names if uu.is_pkgname_in_blacklist(n, held)))"
    )
    held_packages = host.check_output("python3 -c %s", script).split()
    assert held_packages == ["nvidia-driver", "libnvidia-ml1", "linux-image-6.1.0-18-amd64"]


def test_services_and_logins_have_the_limits_or_a_reason_is_reported(host):
    seen = host.check_output("systemctl show -p DefaultLimitMEMLOCK -p DefaultLimitNOFILE").splitlines()
    assert sorted(seen) == ["DefaultLimitMEMLOCK=infinity", "DefaultLimitNOFILE=1048576"]
    session = host.check_output("ulimit -Hl; ulimit -Hn").splitlines()
    if session != ["unlimited", "1048576"]:  # a container may not raise limits
        # OpenSSH 9.8 and later log a session under the name of its own program.
        log = host.check_output("journalctl -q --no-pager -t sshd -t sshd-session")
        assert "Could not set limit for 'memlock'" in log


def test_kernel_settings_are_active_or_reported(host, base_runs):
    name = host.check_output("hostname")
    refused = {
        **not_applied(base_runs.first, name, "Harden kernel and upgrades").get("sysctl", {}),
        **not_applied(base_runs.first, name, "Set buffers and make the MTU persistent").get("sysctl", {}),
        **not_applied(base_runs.first, name, "Set limits, huge pages and their policy").get("sysctl", {}),
    }
    checked = 0
    for line in host.check_output("grep -h = /etc/sysctl.d/6?-gpufleet*.conf").splitlines():
        key, value = line.split(" = ")
        live = host.run(f"cat /proc/sys/{key.replace('.', '/')}").stdout.split()
        assert key in refused or live == value.split(), line
        checked += 1
    assert checked >= 15


def test_audit_log_is_configured_or_reported_as_unavailable(host, base_runs):
    """A rehearsed host has no audit of its own: nothing is installed, and the reason is recorded."""
    name = host.check_output("hostname")
    reason = not_applied(base_runs.first, name, "Read whether the kernel can audit")["auditd"]
    assert reason in (
        "this kernel has no audit subsystem",
        "the kernel refuses audit here, as in a container",
    )
    assert not host.package("auditd").is_installed


def test_huge_page_policy_is_a_unit_with_a_condition(host, base_runs):
    assert host.service("gpufleet-hugepages").is_enabled
    name = host.check_output("hostname")
    units = not_applied(base_runs.first, name, "Set limits, huge pages and their policy").get("units", {})
    if "gpufleet-hugepages.service" not in units:
        assert "[madvise]" in host.file("/sys/kernel/mm/transparent_hugepage/enabled").content_string


def test_only_ssh_is_open(base_runs, lab):
    """Nothing that a role brought listens to the network."""
    with socket.create_connection((lab.address("base01"), 22), timeout=10) as connection:
        assert connection.recv(4) == b"SSH-"
    listening = lab.host("base01").check_output("ss -Hltn").splitlines()
    assert {line.split()[3].rpartition(":")[2] for line in listening if "127.0.0" not in line} == {"22"}
