"""Test the play `network_mesh` on booted hosts: all pairs of three, and groups of twelve in three racks.

Of three hosts, one has a slow link that loses datagrams. Of twelve, all links are shaped alike; one is slower, and one
host drops what the measurement sends. The hosts are the lab's own. Links are slowed from outside: by tbf, for the
kernels of our test machines have no netem, and by nftables rules that lose datagrams.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

PLAY = Path(__file__).parents[2] / "playbooks/network_mesh.yml"
HOSTS = ("base01", "base13", "nv01")
SLOW = "nv01"
QUEUE = ("root", "tbf", "rate", "20mbit", "burst", "32kb", "latency", "400ms")
LOSS = """table inet mesh_loss { chain out { type filter hook output priority 0;
  meta l4proto udp numgen random mod 100 < 20 drop; }; }"""


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def find_namespace(address):
    """Return a host's namespace, which is also its link's name on this machine."""
    labels = [line.split()[0] for line in run("ip", "netns").splitlines()]
    return next(label for label in labels if f"{address}/" in run("ip", "-n", label, "-brief", "address"))


@pytest.fixture(scope="module")
def slow_mesh(lab, boot_hosts):
    """Give the results of a run in which one host has a slow and lossy link."""
    boot_hosts(*HOSTS)
    label = find_namespace(lab.address(SLOW))
    run("tc", "-n", label, "qdisc", "replace", "dev", "eth0", *QUEUE)
    run("tc", "qdisc", "replace", "dev", label, *QUEUE)
    run("ip", "netns", "exec", label, "nft", "-f", "-", text=LOSS)
    try:
        return lab.run(PLAY, limit=",".join(HOSTS), extra_vars={"gpufleet_rehearsal": True})
    finally:
        run("tc", "-n", label, "qdisc", "del", "dev", "eth0", "root")
        run("tc", "qdisc", "del", "dev", label, "root")
        run("ip", "netns", "exec", label, "nft", "delete", "table", "inet", "mesh_loss")


def read_reports(mesh_run):
    """Return what the play reports to the registry, by host."""
    return {
        result.host: result.output["gpufleet"]["facts"]
        for result in mesh_run.results
        if result.task.endswith("Report to the registry")
    }


def test_only_the_slow_host_is_blamed(slow_mesh):
    reports = read_reports(slow_mesh)
    outcomes = {host: report["facts"]["outcome"] for host, report in reports.items()}
    assert outcomes == {"base01": "pass", "base13": "pass", SLOW: "fail"}, json.dumps(reports)
    reasons = " ".join(reports[SLOW]["reasons"])
    assert "sends" in reasons
    assert "loses" in reasons
    assert "Report hosts that stand out" in slow_mesh.failure_text(SLOW)


def test_each_pair_is_measured_once_in_both_directions(slow_mesh):
    facts = {host: report["facts"] for host, report in read_reports(slow_mesh).items()}
    pairs = {host: (entry["pairs"], entry["failed_pairs"]) for host, entry in facts.items()}
    assert pairs == dict.fromkeys(HOSTS, (2, 0))
    assert facts["base01"]["sent_mbit"] > 5 * facts[SLOW]["sent_mbit"] > 0
    assert facts["base01"]["path_mtu"] == 1500


def test_nobody_listens_afterwards(lab, slow_mesh):
    for host in HOSTS:
        assert ":5310" not in lab.host(host).check_output("ss -Hltnu")


RACKS = {
    "base01": "a", "mesh01": "a", "mesh02": "a", "mesh03": "a",
    "base13": "b", "mesh04": "b", "mesh05": "b", "mesh06": "b",
    "nv01": "c", "mesh07": "c", "mesh08": "c", "mesh09": "c",
}  # fmt: skip
SLOW_OF_TWELVE, DEAD_OF_TWELVE = "mesh05", "mesh08"
EVEN = ("root", "tbf", "rate", "60mbit", "burst", "64kb", "latency", "100ms")
SLOWER = ("root", "tbf", "rate", "30mbit", "burst", "64kb", "latency", "100ms")
DEAF = (
    "table inet mesh_deaf { chain in { type filter hook input priority 0; tcp dport 5310-5311 drop; }; chain out {"
    " type filter hook output priority 0; tcp dport 5310-5311 drop; }; }"
)


@pytest.fixture(scope="module")
def grouped_mesh(lab, boot_hosts, slow_mesh):
    """Give the results of a run over twelve hosts in groups, after the links of the three are as before."""
    lab.add({name: {"kind": "servers"} for name in RACKS if name.startswith("mesh")})
    labels = {host: find_namespace(lab.address(host)) for host in RACKS}
    for host, label in labels.items():
        queue = SLOWER if host == SLOW_OF_TWELVE else EVEN
        run("tc", "-n", label, "qdisc", "replace", "dev", "eth0", *queue)
        run("tc", "qdisc", "replace", "dev", label, *queue)
    run("ip", "netns", "exec", labels[DEAD_OF_TWELVE], "nft", "-f", "-", text=DEAF)
    try:
        return lab.run(
            PLAY,
            limit=",".join(RACKS),
            extra_vars={
                "gpufleet_rehearsal": True,
                "racks_of_the_test": RACKS,
                "network_mesh_domain": "{{ racks_of_the_test[inventory_hostname] }}",
                "network_mesh_mode": "groups",
            },
        )
    finally:
        for label in labels.values():
            run("tc", "-n", label, "qdisc", "del", "dev", "eth0", "root")
            run("tc", "qdisc", "del", "dev", label, "root")
        run("ip", "netns", "exec", labels[DEAD_OF_TWELVE], "nft", "delete", "table", "inet", "mesh_deaf")


def test_groups_of_twelve_hosts_name_the_slow_and_the_dead_one(grouped_mesh):
    reports = read_reports(grouped_mesh)
    outcomes = {host: report["facts"]["outcome"] for host, report in reports.items()}
    expected = {host: "fail" if host in (SLOW_OF_TWELVE, DEAD_OF_TWELVE) else "pass" for host in RACKS}
    assert outcomes == expected, json.dumps(reports)
    assert "less" in reports[SLOW_OF_TWELVE]["reasons"][0]
    assert "fails (connect: " in reports[DEAD_OF_TWELVE]["reasons"][0]
    lines = next(r.output["msg"] for r in grouped_mesh.results if r.task.endswith("Show what the run found"))
    assert " of 12 nodes in 3 groups; 3 of 3 links between groups; 66 pairs in all" in lines[0]
    assert int(lines[0].split()[0]) < 66 / 3  # tests
