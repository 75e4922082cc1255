"""Test the firewall on a booted host: open and closed ports, and rules that lock the operator out."""

from __future__ import annotations

import json
import socket
import time

import pytest

SEND = """import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), int(sys.argv[3]))
print(connection.recv(9).decode())
"""
# How long an answer may take, where there must be one and where there must be none.
ANSWER_S, SILENCE_S = 60, 3
SERVE = (
    "systemd-run --quiet --collect --unit=serve-{port} python3 -c 'import socket\n"
    's = socket.create_server(("", {port}))\n'
    'while True: c = s.accept()[0]; c.sendall(b"served"); c.close()\''
)
PLAY = """---
- name: Firewall
  hosts: wall01
  gather_facts: false
  become: true
  tasks:
    - name: Hardening
      ansible.builtin.import_role:
        name: gpufleet.fleet.hardening
"""
WANTED = {
    "hardening_firewall": "present",
    "hardening_firewall_open": [{"name": "web", "ports": ["8000"]}],
}
ONE_PEER = {"hardening_firewall_peers": "{{ [hostvars.peer01.ansible_host] }}"}
# Established sessions would live on: exactly the lock-out that is noticed too late.
SHUT = ["chain shut { type filter hook prerouting priority -150; tcp dport 22 ct state new drop; }"]


@pytest.fixture(scope="module")
def firewall_lab(make_lab):
    """Return a separate lab: a firewall would disturb other roles' tests."""
    lab = make_lab("wall", reads_package_lists=False)
    lab.up({"wall01": {"kind": "servers"}, "peer01": {"kind": "servers"}, "other": {"kind": "servers"}})
    lab.host("wall01").check_output("apt-get update -qq")  # the others install nothing
    for port in (8000, 9000):
        lab.host("wall01").check_output(SERVE.format(port=port))
    lab.runs = {
        "check": apply_firewall(lab, check=True),
        "rules_after_check": lab.host("wall01").run("nft list table inet gpufleet").rc,
        "first": apply_firewall(lab),
        "second": apply_firewall(lab),
    }
    return lab


def apply_firewall(lab, check=False, **more):
    return lab.run(PLAY, tags="firewall", check=check, extra_vars=WANTED | ONE_PEER | more)


def read_port(lab, port, timeout_s=ANSWER_S):
    """Return what the controller gets as an answer; a refusal fails, a timeout is "silence"."""
    try:
        with socket.create_connection((lab.address("wall01"), port), timeout=timeout_s) as connection:
            return connection.recv(9).decode()
    except TimeoutError:
        return "silence"


def test_firewall_is_configured_once(firewall_lab):
    runs = firewall_lab.runs
    assert [runs[name].failure_text("wall01") for name in ("check", "first", "second")] == [None] * 3
    assert runs["check"].changed("wall01") >= 1
    assert runs["rules_after_check"] != 0
    assert runs["second"].changed_tasks("wall01") == []


def test_declared_ports_are_open_and_others_do_not_answer(firewall_lab):
    assert read_port(firewall_lab, 8000) == "served"
    assert read_port(firewall_lab, 9000, SILENCE_S) == "silence"
    assert read_port(firewall_lab, 22).startswith("SSH-2")


def test_peers_reach_all_ports_and_other_hosts_only_open_ones(firewall_lab):
    command = ["python3 -c %s %s %s %s", SEND, firewall_lab.address("wall01")]
    peer, other = firewall_lab.host("peer01"), firewall_lab.host("other")
    assert peer.check_output(*command, "9000", str(ANSWER_S)) == "served"
    assert other.check_output(*command, "8000", str(ANSWER_S)) == "served"
    assert "timed out" in other.run(*command, "9000", str(SILENCE_S)).stderr
    assert "timed out" in other.run(*command, "22", str(SILENCE_S)).stderr


def test_firewall_is_restored_after_a_restart(firewall_lab):
    host = firewall_lab.host("wall01")
    assert host.service("gpufleet-firewall").is_enabled
    host.check_output("nft delete table inet gpufleet && systemctl restart gpufleet-firewall")
    assert read_port(firewall_lab, 9000, SILENCE_S) == "silence"


def test_deleted_rules_are_restored(firewall_lab):
    """Here without configured peers: the whole rack."""
    firewall_lab.host("wall01").check_output("nft add rule inet gpufleet input tcp dport 9999 accept")
    run = firewall_lab.run(PLAY, tags="firewall", extra_vars=WANTED)
    assert run.changed("wall01") == 1
    assert "9999" not in firewall_lab.host("wall01").check_output("nft list table inet gpufleet")
    command = ["python3 -c %s %s 9000 %s", SEND, firewall_lab.address("wall01"), str(ANSWER_S)]
    assert firewall_lab.host("other").check_output(*command) == "served"


def test_rules_that_nft_rejects_are_refused(firewall_lab):
    before = firewall_lab.host("wall01").check_output("nft list ruleset")
    failed = apply_firewall(firewall_lab, hardening_firewall_chains=["chain x { nonsense }"]).failure_text(
        "wall01"
    )
    assert "/etc/gpufleet/firewall.nft was not changed" in failed
    assert firewall_lab.host("wall01").check_output("nft list ruleset") == before


def test_host_reverts_rules_that_lock_out_the_operator(firewall_lab):
    before = firewall_lab.host("wall01").check_output("nft -s list ruleset")
    run = apply_firewall(firewall_lab, hardening_firewall_chains=SHUT, hardening_firewall_confirm_seconds=10)
    assert "rolled back: no new connection got through the new firewall" in run.failure_text("wall01")
    assert run.stats["wall01"]["unreachable"] == 0
    assert read_port(firewall_lab, 22).startswith("SSH-2")
    host = firewall_lab.host("wall01")
    assert host.check_output("nft -s list ruleset") == before
    assert "chain shut" not in host.file("/etc/gpufleet/firewall.nft").content_string
    assert host.check_output("ls /run/gpufleet-firewall") == ""


def test_published_container_port_keeps_working(firewall_lab):
    """A network namespace behind a bridge port and a DNAT rule: a FAKE of the rules of podman and Docker."""
    host = firewall_lab.host("wall01")
    host.check_output(
        "systemd-run --quiet --collect --service-type=exec --unit=pod -p PrivateNetwork=yes python3 -c 'import socket\n"
        's = socket.create_server(("", 80))\n'
        'while True: c = s.accept()[0]; c.sendall(b"container"); c.close()\''
    )
    pid = host.check_output("systemctl show -P MainPID pod")
    inside = f"nsenter -t {pid} -n"
    host.check_output(
        f"ip link add podman0 type veth peer name eth0 netns {pid}; ip addr add 10.88.0.1/24 dev podman0;"
        f"ip link set podman0 up; {inside} ip link set lo up; {inside} ip addr add 10.88.0.2/24 dev eth0;"
        f"{inside} ip link set eth0 up; {inside} ip route add default via 10.88.0.1;"
        "sysctl -qw net.ipv4.ip_forward=1; nft add table ip fakeports;"
        "nft 'add chain ip fakeports pre { type nat hook prerouting priority dstnat; }';"
        "nft add rule ip fakeports pre tcp dport 7070 dnat to 10.88.0.2:80"
    )
    assert apply_firewall(firewall_lab).failure_text("wall01") is None
    deadline = time.monotonic() + ANSWER_S
    while (answer := read_port(firewall_lab, 7070, SILENCE_S)) != "container" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert answer == "container"
    assert "table ip fakeports" in host.check_output("nft list ruleset")


def test_firewall_is_removed_when_disabled(firewall_lab):
    run = firewall_lab.run(PLAY, tags="firewall", extra_vars=WANTED | {"hardening_firewall": "absent"})
    assert run.failure_text("wall01") is None
    assert read_port(firewall_lab, 9000) == "served"
    assert not firewall_lab.host("wall01").service("gpufleet-firewall").is_enabled
    assert json.loads(firewall_lab.host("wall01").check_output("nft -j list tables"))["nftables"][1:] != []
