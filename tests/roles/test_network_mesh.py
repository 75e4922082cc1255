"""Test the play `network_mesh` on three booted hosts: one of them has a slow link that loses datagrams.

The hosts are the lab's own. The link is slowed from outside: by tbf, for the kernels of our test machines have no
netem, and by an nftables rule that loses datagrams.
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
