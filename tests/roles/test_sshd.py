"""Test sshd's algorithms on booted hosts, by ssh, paramiko and ssh-audit, and algorithms that lock the operator out."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from gpufleet.remote.probe import ReachableHost, probe_hosts

PLAYS = ("base",)
HOSTS = ("base01", "base13", "blade01")
DROP_IN = "/etc/ssh/sshd_config.d/00-gpufleet.conf"
TASK = "Set the SSH service's settings and algorithms and test a new connection"
# base13 loses every cipher that ssh offers, which shows after 3 s; on base01 another file sets the MACs first.
PLAY = """---
- name: SSH service
  hosts: base01,base13
  gather_facts: false
  become: true
  tasks:
    - name: Hardening
      ansible.builtin.import_role:
        name: gpufleet.fleet.hardening
      vars:
        hardening_sshd_confirm_seconds: "{{ [inventory_hostname == 'base13'] | map('ternary', 3, 45) | first }}"
        hardening_sshd_ciphers: "{{ [inventory_hostname == 'base13'] | map('ternary', ['aes128-cbc'], []) | first }}"
"""


@pytest.fixture(scope="module", autouse=True)
def _converged(converge_play):
    converge_play("base")


@pytest.fixture(params=HOSTS)
def host(request, lab):
    return lab.host(request.param)


def connect(lab, name, *options):
    """Return the result of a new connection by ssh."""
    files = [
        "-F",
        "none",
        "-o",
        f"UserKnownHostsFile={lab.home}/ssh/known_hosts",
        "-i",
        f"{lab.home}/ssh/id_ed25519",
    ]
    command = [
        "ssh",
        *files,
        "-o",
        "StrictHostKeyChecking=yes",
        *options,
        f"root@{lab.address(name)}",
        "true",
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_sshd_has_those_algorithms_that_it_supports(host):
    effective = dict(line.split(" ", 1) for line in host.check_output("sshd -T").splitlines() if " " in line)
    assert effective["ciphers"].startswith("chacha20-poly1305@openssh.com,aes256-gcm@openssh.com,aes256-ctr")
    assert (
        effective["macs"]
        == "hmac-sha2-512-etm@openssh.com,hmac-sha2-256-etm@openssh.com,umac-128-etm@openssh.com"
    )
    newest = "mlkem768x25519-sha256" if host.system_info.codename == "trixie" else "sntrup761x25519-sha512"
    assert effective["kexalgorithms"].split(",")[0] == newest
    assert "ecdsa" not in effective["hostkeyalgorithms"]
    assert "ecdsa-sha2-nistp256" in effective["pubkeyacceptedalgorithms"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("Ciphers=aes128-cbc", "no matching cipher found"),
        ("KexAlgorithms=diffie-hellman-group14-sha256", "no matching key exchange method found"),
        ("HostKeyAlgorithms=ecdsa-sha2-nistp256", "no matching host key type found"),
    ],
)
def test_weak_algorithms_are_refused(lab, option, message):
    for name in ("base01", "base13"):
        assert message in connect(lab, name, "-o", option).stderr


def test_ssh_and_paramiko_connect(lab):
    addresses = {name: lab.address(name) for name in HOSTS}
    key, known_hosts = lab.home / "ssh/id_ed25519", lab.home / "ssh/known_hosts"
    answers = probe_hosts(
        list(addresses.values()), user="root", key=key, known_hosts=[known_hosts], timeout=30
    )
    assert {type(answer) for answer in answers.values()} == {ReachableHost}
    assert connect(lab, "base01").returncode == 0


@pytest.mark.skipif(not shutil.which("ssh-audit"), reason="ssh-audit is not installed")
def test_ssh_audit_finds_no_failure(lab):
    """Its status is 3 for a failure and 2 for a warning; the default settings of both releases have failures."""
    for name in ("base01", "base13"):
        audit = subprocess.run(
            ["ssh-audit", "--no-colors", lab.address(name)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert audit.returncode in (0, 2), audit.stdout
        assert "[fail]" not in audit.stdout


def test_crypto_policy_of_red_hat_is_read_after_the_drop_in(lab):
    """The files of RHEL 9 (50-redhat.conf and what it includes), judged by a real sshd."""
    host = lab.host("base01")
    policy, include = "/run/opensshserver.config", "/etc/ssh/sshd_config.d/50-redhat.conf"
    host.check_output(f"echo 'Ciphers aes128-ctr' >{policy}; echo 'Include {policy}' >{include}")
    try:
        assert "ciphers chacha20" in host.check_output("sshd -T")
        # Without lists of ours, as is the default there, the policy counts.
        host.check_output(f"sed -i.kept /^Ciphers/d {DROP_IN}")
        assert "ciphers aes128-ctr\n" in host.check_output("sshd -T")
    finally:
        host.check_output(f"rm -f {policy} {include}; [ ! -e {DROP_IN}.kept ] || mv {DROP_IN}.kept {DROP_IN}")


def test_host_reverts_algorithms_that_lock_out_the_operator(lab):
    first, other = lab.host("base13"), lab.host("base01")
    before = first.file(DROP_IN).content_string, other.file(DROP_IN).content_string
    other.check_output("sed -i.kept '1i MACs hmac-sha2-256' /etc/ssh/sshd_config")
    try:
        run = lab.run(PLAY, tags="sshd", limit="base01,base13")
        assert "rolled back: no new connection got through" in run.failure_text("base13")
        assert run.stats["base13"]["unreachable"] == 0
        assert first.file(DROP_IN).content_string == before[0]
        assert connect(lab, "base13").returncode == 0
        assert (
            first.run("ls /etc/gpufleet/sshd-previous.conf /etc/tmpfiles.d/gpufleet-sshd.conf").stdout == ""
        )
        assert run.failure_text("base01") is None
        applied = next(result.output for result in run.results_of("base01") if result.task.endswith(TASK))
        assert applied["not_applied"] == {"sshd": {"MACs": "another file sets it first: hmac-sha2-256"}}
    finally:
        other.check_output("mv /etc/ssh/sshd_config.kept /etc/ssh/sshd_config; systemctl reload ssh")


def test_start_of_the_host_reverts_unconfirmed_settings(lab):
    """systemd-tmpfiles, run as at the start of a host, restores what is kept aside."""
    host = lab.host("base13")
    before = host.file(DROP_IN).content_string
    previous, guard = "/etc/gpufleet/sshd-previous.conf", "/etc/tmpfiles.d/gpufleet-sshd.conf"
    host.check_output(
        f"mkdir -p /etc/gpufleet; cp {DROP_IN} {previous}; echo 'L+! {DROP_IN} - - - - {previous}' >{guard};"
        f" echo 'Ciphers aes128-cbc' >{DROP_IN}"
    )
    host.check_output(f"systemd-tmpfiles --create --remove --boot {guard}")
    assert host.file(DROP_IN).content_string == before
    assert "ciphers chacha20" in host.check_output("sshd -T")
    play = PLAY.replace("base01,base13", "base13").replace("['aes128-cbc']", "[]").replace("3, 45", "45, 45")
    run = lab.run(play, tags="sshd", limit="base13")
    assert run.failure_text("base13") is None
    assert not host.file(DROP_IN).is_symlink
    assert not host.file(guard).exists
