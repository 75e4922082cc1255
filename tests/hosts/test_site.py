"""Test site.yml on booted hosts: their state seen over SSH and in the registry."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import testinfra

from gpufleet import remote

SOUND, NO_SSHD, FULL, UNDERVOLTED = (f"poc-blade0{slot}" for slot in range(1, 5))
DROP_IN = "/etc/ssh/sshd_config.d/00-gpufleet.conf"


@dataclass
class Site:
    """A rack of booted hosts with a project around it, used as a person would."""

    box: Any
    project: Path
    gpufleet: Any
    env: dict[str, str]
    trial: str = ""
    before: dict[str, Any] = field(default_factory=dict)

    def run_gpufleet(self, *arguments, **changed):
        return self.gpufleet(*arguments, cwd=self.project, env={**self.env, **changed})

    def answer(self, *arguments):
        return json.loads(self.run_gpufleet(*arguments, "--json").stdout)

    def nodes(self):
        return {node["name"]: node for node in self.answer("nodes", "list")}

    def runner(self, limit, **changed):
        """Run site.yml with plain ansible-runner, without `gpufleet configure`."""
        command = [
            "ansible-runner",
            "run",
            ".",
            "--project-dir",
            "playbooks",
            "-p",
            "site.yml",
            "--limit",
            limit,
        ]
        return subprocess.run(
            command, cwd=self.project, env={**self.env, **changed}, capture_output=True, text=True, timeout=1800,
            check=False,
        )  # fmt: skip

    def configure(self, limit, *options):
        result = self.run_gpufleet("configure", "--limit", limit, "--play", "configure", *options, "--json")
        return {host["name"]: host for host in json.loads(result.stdout)["hosts"]}

    def host(self, slot, user="root"):
        """Look at a host over SSH, from outside."""
        files = f"-F none -o UserKnownHostsFile={self.box.home}/ssh/known_hosts -o StrictHostKeyChecking=yes"
        return testinfra.get_host(
            f"ssh://{user}@{self.box.address(f'blades-poc/{slot}')}",
            ssh_identity_file=str(self.box.home / "ssh/id_ed25519"), ssh_extra_args=files,
        )  # fmt: skip


def make_site(box, project, gpufleet, clean_env):
    env = box.rehearsal_environment(clean_env)
    site = Site(box, project, gpufleet, env)
    synced = site.run_gpufleet("nodes", "sync", "-s", "poc")
    assert synced.returncode == 0, synced.stderr
    return site


@pytest.fixture(scope="module")
def site(faulty_rack, shared_project, gpufleet, clean_env):
    """Give the rack after a trial of one bare blade and one plain ansible-runner run over all of them."""
    site = make_site(faulty_rack, shared_project, gpufleet, clean_env)
    site.trial = site.run_gpufleet("configure", "--limit", SOUND, "--check").stdout
    site.before = site.nodes()
    site.runner("new_blades")
    return site


def count_changes(text):
    """Read Ansible's recap: changed tasks by host."""
    rows = [line.split() for line in text.splitlines() if "changed=" in line]
    return {
        row[0]: int(next(column for column in row if column.startswith("changed=")).partition("=")[2])
        for row in rows
    }


def test_check_mode_works_on_a_new_blade_and_changes_no_state(site):
    assert site.trial.startswith(f"  1  {SOUND}  expected\n")
    assert site.before[SOUND]["state"] == "expected"


def test_ansible_runner_alone_brings_each_blade_to_its_expected_state(site):
    states = {name: (node["state"], node["reachable"], node["holds"]) for name, node in site.nodes().items()}
    assert states[SOUND] == ("ready", True, [])
    assert states[NO_SSHD] == ("expected", False, [])
    assert states[FULL] == ("quarantined", True, [])
    assert states[UNDERVOLTED] == ("ready", True, ["operator"])


def test_debian_13_blade_is_measured_like_the_others(site):
    """Its agent ran under Python 3.13; the state ``ready`` above needs every required check."""
    assert site.host(4).system_info.codename == "trixie"
    assert site.nodes()[UNDERVOLTED]["state"] == "ready"


def test_full_disk_is_reported_as_the_reason(site):
    reasons = "\n".join(line["reason"] for line in site.answer("nodes", "history", FULL))
    assert "No space left on device" in reasons


def test_second_run_changes_nothing_and_repeats_no_burn_in(site):
    result = site.run_gpufleet("configure", "--limit", f"{SOUND},{UNDERVOLTED}", "--json")
    summary = json.loads(result.stdout)
    assert {host["name"]: host["changed"] for host in summary["hosts"]} == {SOUND: 0, UNDERVOLTED: 0}
    recap = Path(summary["artifacts"], "stdout").read_text()
    assert count_changes(recap) == {SOUND: 0, UNDERVOLTED: 0}
    assert "burn_in : Measure" not in recap


def test_verdict_determines_the_exit_code(site):
    assert site.run_gpufleet("configure", "--limit", SOUND, "--play", "commission").returncode == 0
    assert site.run_gpufleet("configure", "--limit", UNDERVOLTED, "--play", "commission").returncode == 1
    assert site.run_gpufleet("configure", "--limit", NO_SSHD, "--play", "commission").returncode == 1


def test_limit_that_leaves_no_host_exits_with_1(site):
    result = site.run_gpufleet("configure", "--limit", f"new_blades:!{NO_SSHD}")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: --limit: new_blades:!{NO_SSHD} leaves no host")


def test_misspelt_group_is_refused(site):
    result = site.run_gpufleet("configure", "--limit", "new_bladse")
    assert result.returncode == 2
    assert (
        result.stderr.strip()
        == "error: --limit: no host or group 'new_bladse'; did you mean new_blades or new_nodes?"
    )


def test_host_name_and_time_zone_are_set(site):
    host = site.host(1)
    assert host.check_output("hostname") == SOUND
    assert f"127.0.1.1 {SOUND}" in host.file("/etc/hosts").content_string
    assert host.file("/etc/localtime").linked_to == "/usr/share/zoneinfo/Etc/UTC"


def test_operator_logs_in_with_a_key_and_may_use_sudo(site):
    host = site.host(1, user="ops")
    assert host.check_output("id -un") == "ops"
    assert host.check_output("sudo -n id -u") == "0"
    keys = site.host(1).file("/home/ops/.ssh/authorized_keys")
    assert (keys.user, keys.mode) == ("ops", 0o600)


def test_sshd_has_the_configured_settings(site):
    effective = site.host(1).check_output("sshd -T")
    assert "passwordauthentication no" in effective
    assert "permitrootlogin without-password" in effective
    assert site.host(1).file(DROP_IN).mode == 0o600


def test_kernel_settings_are_active_or_reported(site):
    host = site.host(1)
    assert host.sysctl("net.ipv4.conf.all.accept_redirects") == 0
    facts = next(
        v for v in site.answer("nodes", "show", SOUND)["values"] if v["key"] == "observed.configuration"
    )
    refused = facts["value"]["not_applied"].get("sysctl", {})
    settings = host.file("/etc/sysctl.d/60-gpufleet.conf").content_string
    for line in settings.splitlines()[1:]:
        key, value = line.split(" = ")
        assert key in refused or host.check_output(f"cat /proc/sys/{key.replace('.', '/')}") == value
    assert "time" in facts["value"]["not_applied"], "a container's clock is its host's"


def test_vfat_module_is_not_disabled(site):
    assert site.host(1).run("grep -rsiE '(blacklist|install) +vfat' /etc/modprobe.d").stdout == ""


def test_check_mode_reports_changes_without_making_them(site):
    before = site.nodes()[SOUND]
    completed = site.configure(SOUND, "--check", "-e", "common_timezone=Europe/Berlin")
    assert completed[SOUND]["changed"] == 1, "the timezone's files"
    assert site.host(1).file("/etc/localtime").linked_to == "/usr/share/zoneinfo/Etc/UTC"
    assert site.nodes()[SOUND]["state"] == before["state"]


def test_sshd_settings_that_lock_out_the_login_are_refused(site):
    before = site.host(1).file(DROP_IN).content_string
    completed = site.configure(SOUND, "-e", 'hardening_sshd_settings={"PubkeyAuthentication": "no"}')
    assert completed[SOUND]["status"] == "rescued"
    assert f"{DROP_IN} was not changed: sshd would accept no keys" in completed[SOUND]["reason"]
    assert site.host(1).file(DROP_IN).content_string == before
    assert site.host(1).run("ls -d /run/gpufleet-candidate-* /run/gpufleet-sshd-*").stdout == "", (
        "candidates are cleared away"
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("PermitRootLogin no", "PermitRootLogin"),
        ("PermitRootLogin forced-commands-only", "PermitRootLogin"),
        ("AllowUsers somebody else*", "AllowUsers"),
        ("AllowGroups nobody-at-all", "AllowGroups"),
        ("DenyUsers r*", "DenyUsers"),
        ("DenyGroups root", "DenyGroups"),
        ("AuthenticationMethods publickey,password", "AuthenticationMethods"),
        ("AuthorizedKeysFile none", "AuthorizedKeysFile"),
        ("PermitRotLogin no", "Bad configuration option: PermitRotLogin"),
        ("MaxAuthTries 3", ""),
        ("AllowUsers somebody ro?t", ""),
        ("AuthenticationMethods publickey,password publickey", ""),
    ],
)
def test_sshd_drop_in_is_validated(site, line, reason):
    role = Path(__file__).parents[2] / "modules/ansible_collections/gpufleet/fleet/roles/hardening"
    script = (role / "files/sshd_admits.sh").read_text()
    host = site.host(1)
    host.check_output("echo %s >/run/candidate", line)
    completed = host.run("sh -c %s sshd_admits /run/candidate 00-gpufleet.conf root", script)
    assert (completed.rc, reason in completed.stderr) == (1 if reason else 0, True)


def test_login_of_the_run_cannot_be_removed(site):
    completed = site.configure(
        SOUND, "-e", 'users_and_access_operators=[{"name": "root", "state": "absent"}]'
    )
    assert "root is the login of this run" in completed[SOUND]["reason"]
    assert site.host(1).user("root").exists


def test_unknown_host_key_is_refused_despite_ansible_settings(site, tmp_path):
    strange = tmp_path / "known_hosts"
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2Ci8kpFzIrgDJSJuT1SuHpPxNnQVYg5kTHQ+5Ak6Zs"
    strange.write_text(f"{site.box.address('blades-poc/1')} {key}\n")
    options = f"-o UserKnownHostsFile={strange} -o ControlPath=none"
    # With pipelining, Ansible's ssh plugin can lose what ssh said: it finds the pipe closed before ssh has ended.
    result = site.runner(SOUND, ANSIBLE_SSH_COMMON_ARGS=options, ANSIBLE_PIPELINING="False")
    assert "Host key verification failed" in result.stdout
    assert "unreachable=1" in result.stdout


def test_probe_reaches_nodes_and_classifies_failures(site, tmp_path):
    sound, silent = (site.box.address(f"blades-poc/{slot}") for slot in (1, 2))
    files = {"key": site.box.home / "ssh/id_ed25519", "known_hosts": [site.box.home / "ssh/known_hosts"]}
    probes = remote.probe_hosts([sound, silent], user="root", timeout=60, **files)
    assert probes[sound].facts.hostname == SOUND
    serial = site.host(1).check_output("tr -d '\\0' </sys/firmware/devicetree/base/serial-number")
    assert (probes[sound].facts.serial, probes[sound].facts.serial_source) == (serial, "device_tree")
    assert probes[silent].reason == "refused"
    empty_known_hosts = tmp_path / "known_hosts"
    empty_known_hosts.touch()
    strict = remote.probe_hosts([sound], user="root", key=files["key"], known_hosts=[empty_known_hosts])
    assert strict[sound].reason == "unknown_host_key"


@pytest.mark.slow
def test_arm64_blade_is_configured_from_new_to_ready(box, shared_project, gpufleet, clean_env):
    box.slots = 1
    box.up("arm64: [blades-poc/1]")
    site = make_site(box, shared_project, gpufleet, clean_env)
    site.run_gpufleet("configure", "--limit", SOUND)
    node = site.answer("nodes", "show", SOUND)
    assert node["state"] == "ready", node["state_reason"]
    assert "aarch64" in json.dumps(node["values"])
    site.run_gpufleet(
        "configure", "--limit", SOUND, "--play", "blades", "-e", "blade_agent_package=compute-blade-agent"
    )
    assert box.read("blades-poc/1", "uname -m; systemctl is-active compute-blade-agent").split() == [
        "aarch64",
        "active",
    ]
