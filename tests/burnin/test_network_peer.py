"""Test which peer the network check measures against, and that another party's failure is never the node's."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from gpufleet import burnin
from gpufleet.burnin.agent.command import CommandOutput
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.checks.network import measure as network

ROUTE = "Iface\tDestination\tGateway\tFlags\neth1\t00000000\t010012C6\t0003\n"
FIND = (
    "from gpufleet.burnin.agent.host import HostAccess; from gpufleet.burnin.checks.network import measure;"
    "print(measure.find_ssh_client(HostAccess()))"
)


@pytest.fixture
def make_host(tmp_path, monkeypatch):
    """Give a function that lays out a host's files; its processes have no SSH session."""
    monkeypatch.delenv("SSH_CONNECTION", raising=False)

    def make(files, **params):
        for name, text in files.items():
            path = tmp_path / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return HostAccess(params=params, root=str(tmp_path))

    return make


def test_ssh_client_is_found_though_sudo_removed_its_variable():
    """Real processes: a shell with the variable starts a program from whose environment it is removed."""
    shell = {**os.environ, "SSH_CONNECTION": "192.0.2.9 50022 192.0.2.1 22", "PROGRAM": FIND}
    command = f'env -u SSH_CONNECTION {sys.executable} -c "$PROGRAM"; true'
    done = subprocess.run(["sh", "-c", command], env=shell, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "192.0.2.9"


def test_no_ssh_session_gives_no_client(make_host):
    assert network.find_ssh_client(make_host({})) == ""


def test_peers_are_tried_from_the_controller_to_the_name_servers(make_host, monkeypatch):
    files = {
        "/proc/net/route": ROUTE,
        "/etc/resolv.conf": "search lab\nnameserver 127.0.0.53\n",
        "/run/systemd/resolve/resolv.conf": "nameserver 192.0.2.53\nnameserver 2001:db8::53\n",
    }
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.9 50022 192.0.2.1 22")
    peers = [(peer.address, peer.port) for peer in network.list_test_peers(make_host(files))]
    assert peers == [("192.0.2.9", 9), ("198.18.0.1", 9), ("192.0.2.53", 53), ("2001:db8::53", 53)]
    (only,) = network.list_test_peers(make_host(files, peer="192.0.2.7", peer_port=5300))
    assert (only.address, only.port) == ("192.0.2.7", 5300)


def test_peer_behind_a_firewall_is_replaced_by_the_next_one(monkeypatch):
    asked = []

    def measure(address, port, count):
        asked.append(address)
        return {"sent": 10, "lost": 0} if address == "c" else {"sent": 2, "lost": 2}

    monkeypatch.setattr(network, "measure_round_trips", measure)
    peers = [network.NetworkPeer(name, 9, "test") for name in "abcd"]
    peer, trips = network.measure_first_answering_peer(peers)
    assert (peer.address, trips["lost"], asked) == ("c", 0, ["a", "b", "c"])
    silent, trips = network.measure_first_answering_peer(peers[:2])
    assert (silent.address, trips["lost"]) == ("a", 2)


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (
            CommandOutput(1, '{"error": "the server is busy running a test. try again later"}', ""),
            "the server is busy running a test. try again later",
        ),
        (CommandOutput(1, '{"error": "unable to connect to server: Connection refused"}', ""), "unable to"),
        (CommandOutput(127, "", "No such file"), "No such file"),
        (CommandOutput(1, "", ""), "exit 1"),
    ],
)
def test_throughput_that_another_party_prevented_is_not_run(records_of, output, error):
    host = HostAccess(params={"iperf3_port": 5201}, run=lambda *_: output, which=lambda tool: tool)
    rate = network.measure_throughput(host, "192.0.2.7")
    records = records_of({"base": "cloud_vm", "change": {"network": {"raw.throughput": rate}}})
    report = burnin.judge_attempt(records, "cloud_vm", "quick")
    result = report.find_check_result("network")
    assert (result.outcome, report.verdict) == ("not_run", "incomplete")
    assert "throughput_mbit was not measured: iperf3: " in result.reason
    assert error in result.reason


def test_missing_iperf3_is_not_run(records_of):
    host = HostAccess(params={"iperf3_port": 5201}, which=lambda tool: None)
    rate = network.measure_throughput(host, "192.0.2.7")
    records = records_of({"base": "cloud_vm", "change": {"network": {"raw.throughput": rate}}})
    assert burnin.judge_attempt(records, "cloud_vm", "quick").verdict == "incomplete"


def test_silent_peer_is_named(records_of):
    trips = {"sent": 2, "lost": 2, "median_ms": None}
    records = records_of({"base": "cloud_vm", "change": {"network": {"raw.round_trip": trips}}})
    result = burnin.judge_attempt(records, "cloud_vm", "quick").find_check_result("network")
    assert result.outcome == "not_run"
    assert "no answer from 192.0.2.1: it is down, or a firewall drops the packets" in result.reason


@pytest.mark.parametrize(("lost", "outcome"), [(0, "pass"), (1, "warn"), (6, "fail"), (9, "fail")])
def test_lost_round_trips_of_an_answering_peer_count(records_of, lost, outcome):
    records = records_of({"base": "cloud_vm", "change": {"network": {"raw.round_trip.lost": lost}}})
    assert burnin.judge_attempt(records, "cloud_vm", "quick").find_check_result("network").outcome == outcome


# stress-ng(1), EXIT STATUS (0.15.06): only 2 is a stressor that failed its own verification.
@pytest.mark.parametrize(
    ("code", "outcome"), [(0, "pass"), (2, "fail"), *((code, "not_run") for code in (1, 3, 4, 5, 6, 7, 124))]
)
def test_only_a_failed_stressor_of_stress_ng_is_a_fault(records_of, code, outcome):
    text = "stress-ng: info:  [9] cpu                4800     20.00     79.90      0.01       239.99        60.07"
    stress = {"ran": True, "code": code, "text": text}
    records = records_of(
        {"base": "cloud_vm", "change": {"cpu": {"raw.stress_ng": json.loads(json.dumps(stress))}}}
    )
    assert burnin.judge_attempt(records, "cloud_vm", "standard").find_check_result("cpu").outcome == outcome
