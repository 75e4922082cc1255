"""Test rounds of pairs, one pair's session on loopback, and which node of a rack is blamed."""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter

import pytest

from gpufleet.burnin import mesh
from gpufleet.burnin.agent import network_stream

GOOD = {
    "sent_mbit": 9400.0, "received_mbit": 9400.0, "datagrams_sent": 400, "datagrams_received": 400,
    "local_mtu": 9000, "partner_mtu": 9000, "path_mtu": 9000, "round_trip_ms": 0.1,
}  # fmt: skip


def names(count):
    return [f"node{number:02}" for number in range(1, count + 1)]


def measure_rack(count, change):
    """Return the pairs of a rack; ``change(driver, listener)`` gives what differs from a good pair."""
    pairs = []
    for at, (one, two) in enumerate(itertools.combinations(names(count), 2)):
        noise = 1 + 0.004 * (at % 5)
        facts = {**GOOD, "sent_mbit": 9400 * noise, "received_mbit": 9380 * noise, **change(one, two)}
        pairs.append(mesh.read_pair_measurement(one, two, facts))
    return mesh.judge_mesh(names(count), pairs)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 8, 20, 41])
def test_each_pair_meets_once_and_each_node_has_one_partner_in_a_round(count):
    rounds = mesh.build_rounds(names(count))
    pairs = [frozenset(pair) for pairs in rounds for pair in pairs]
    assert sorted(map(sorted, pairs)) == sorted(map(list, itertools.combinations(names(count), 2)))
    for pairs in rounds:
        assert max(Counter(name for pair in pairs for name in pair).values()) == 1
    assert len(rounds) == (0 if count < 2 else count - 1 + count % 2)


def test_nodes_take_turns_in_driving():
    driven = Counter(driver for pairs in mesh.build_rounds(names(8)) for driver, _ in pairs)
    assert set(driven) == set(names(8))


@pytest.mark.parametrize("count", [3, 8, 20])
def test_healthy_rack_has_no_fault(count):
    nodes = measure_rack(count, lambda *_: {})
    assert {node.outcome for node in nodes.values()} == {"pass"}
    assert nodes["node01"].path_mtu == 9000
    assert nodes["node01"].loss_share == 0


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"sent_mbit": 940.0, "received_mbit": 940.0}, "sends 940 Mbit/s with most partners, its peers"),
        ({"datagrams_received": 380}, "loses 0.05 of its datagrams"),
        ({"partner_mtu": 1500, "path_mtu": 1500}, "passes no full frames in 1 of its pairs"),
    ],
)
@pytest.mark.parametrize("count", [3, 8, 20])
def test_only_the_bad_node_is_blamed(count, facts, reason):
    bad = names(count)[-1]
    nodes = measure_rack(count, lambda one, two: facts if bad in (one, two) else {})
    assert {name for name, node in nodes.items() if node.outcome == "fail"} == {bad}
    assert {node.outcome for name, node in nodes.items() if name != bad} == {"pass"}
    assert reason in " ".join(nodes[bad].reasons)


def test_node_that_only_receives_slowly_is_blamed():
    nodes = measure_rack(8, lambda _, two: {"sent_mbit": 900.0} if two == "node08" else {})
    assert nodes["node08"].outcome == "fail"
    assert "receives 900 Mbit/s" in nodes["node08"].reasons[0]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"sent_mbit": 940.0}, "940 Mbit/s, both ends with others"),
        ({"datagrams_received": 300}, "25.0% of the datagrams were lost"),
        ({"path_mtu": 1500}, "frames of 9000 bytes do not pass, 1500 do"),
        ({"error": "timed out", "failed_step": "connect"}, "connect: timed out"),
    ],
)
def test_one_bad_pair_names_both_ends_and_blames_none(facts, reason):
    pair = {"node02", "node05"}
    nodes = measure_rack(8, lambda one, two: facts if {one, two} == pair else {})
    assert {name: node.outcome for name, node in nodes.items() if node.outcome != "pass"} == dict.fromkeys(
        pair, "warn"
    )
    assert f"node05: {reason}" in nodes["node02"].reasons[0]
    assert f"node02: {reason}" in nodes["node05"].reasons[0]


@pytest.mark.parametrize("count", [3, 8])
def test_node_without_any_measured_pair_is_not_run_and_costs_the_others_nothing(count):
    gone = names(count)[0]
    refused = {"error": "Connection refused", "failed_step": "connect", "sent_mbit": None}
    nodes = measure_rack(count, lambda one, two: refused if gone in (one, two) else {})
    assert nodes[gone].outcome == "not_run"
    assert "fails in 1 of its pairs" in nodes[gone].reasons[0]
    assert {node.outcome for name, node in nodes.items() if name != gone} == {"pass"}


def test_two_nodes_blame_none():
    nodes = measure_rack(2, lambda *_: {"datagrams_received": 200})
    assert {node.outcome for node in nodes.values()} == {"pass"}
    assert mesh.judge_mesh(["alone"], [])["alone"].outcome == "not_run"


@pytest.mark.parametrize(
    ("output", "errors", "error"),
    [
        ("", "x\nagent: cannot listen: Address in use", "agent: cannot listen: Address in use"),
        ("[1]", "", "the session gave no report"),
        ("\x1b[31mred", "\x1b[2Jx\n", "\\x1b[2Jx"),
        ('{"sent_mbit": 1e400}', "", "the session gave no report"),
        ('{"sent_mbit": "fast", "received_mbit": true}', "", "no rate was measured"),
        ('{"sent_mbit": -5, "received_mbit": 5}', "", "no rate was measured"),
        ('{"error": "refused", "failed_step": "connect"}', "", "connect: refused"),
    ],
)
def test_session_without_a_report_is_an_error(output, errors, error):
    assert mesh.read_pair_session("a", "b", output, errors).error == error


def test_impossible_counts_are_left_out():
    pair = mesh.read_pair_measurement("a", "b", {**GOOD, "datagrams_received": 401, "path_mtu": 0})
    assert (pair.loss_share, pair.path_mtu) == (None, None)


def run_agent(agent, *arguments):
    return subprocess.run(
        [sys.executable, str(agent), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_pair_of_agents_measures_both_directions(agent):
    port = free_port()
    ends = ("--address=127.0.0.1", "--partner=127.0.0.1", f"--port={port}")
    assert run_agent(agent, "pair-serve", *ends, "--seconds=30").returncode == 0
    session = run_agent(agent, "pair-measure", *ends, "--seconds=0.1", "--no-iperf3")
    pair = mesh.read_pair_session("a", "b", session.stdout, session.stderr)
    assert pair.error == ""
    assert pair.sent_mbit > 10
    assert pair.received_mbit > 10
    assert (pair.loss_share, pair.local_mtu) == (0, pair.path_mtu)
    assert json.loads(session.stdout)["method"] == "built-in"
    # The listener ends with the session.
    while network_stream.is_listening(port):
        time.sleep(0.01)  # the test would hang if it did not end
    again = run_agent(agent, "pair-measure", *ends, "--seconds=0.1")
    assert "connect: " in mesh.read_pair_session("a", "b", again.stdout, again.stderr).error


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")
def test_pair_with_iperf3_on_both_ends_uses_it(agent):
    ends = ("--address=127.0.0.1", "--partner=127.0.0.1", f"--port={free_port()}")
    assert run_agent(agent, "pair-serve", *ends, "--seconds=60").returncode == 0
    session = run_agent(agent, "pair-measure", *ends, "--seconds=0.1")
    assert json.loads(session.stdout)["method"] == "iperf3"
    assert mesh.read_pair_session("a", "b", session.stdout, "").received_mbit > 10


def test_listening_port_is_found():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert network_stream.is_listening(port)
    assert not network_stream.is_listening(port)


def test_listener_refuses_strangers_and_a_used_port(agent):
    port = free_port()
    ends = ("--address=127.0.0.1", "--partner=127.0.0.2", f"--port={port}")
    assert run_agent(agent, "pair-serve", *ends, "--seconds=60").returncode == 0
    with socket.create_server(("127.0.0.1", 0)) as other:
        used_port = other.getsockname()[1]
        used = run_agent(agent, "pair-serve", *ends[:2], f"--port={used_port}", "--seconds=60")
    assert (used.returncode, f"cannot listen on 127.0.0.1:{used_port}" in used.stderr) == (2, True)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
        assert stranger.recv(1) == b""
    stranger = run_agent(
        agent, "pair-measure", "--address=127.0.0.1", "--partner=127.0.0.1", f"--port={port}", "--seconds=0.1"
    )
    assert "error" in json.loads(stranger.stdout)
    partner = ("--address=127.0.0.2", "--partner=127.0.0.1", f"--port={port}")
    measured = run_agent(agent, "pair-measure", *partner, "--seconds=0.1", "--no-iperf3")
    assert json.loads(measured.stdout)["method"] == "built-in"  # the listener ends with the session


def test_listener_replaces_one_whose_partner_did_not_come(agent):
    port = free_port()
    for partner in ("127.0.0.3", "127.0.0.2"):  # the first one never comes
        ends = ("--address=127.0.0.1", f"--partner={partner}", f"--port={port}")
        started = run_agent(agent, "pair-serve", *ends, "--seconds=60")
        assert (started.returncode, started.stderr) == (0, "")
    partner = ("--address=127.0.0.2", "--partner=127.0.0.1", f"--port={port}")
    measured = json.loads(run_agent(agent, "pair-measure", *partner, "--seconds=0.1", "--no-iperf3").stdout)
    assert (measured.get("error"), measured["datagrams_received"]) == (None, 400)


def test_duplicated_datagrams_count_once():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        for data in (b"\0\0\0\0x", b"\0\0\0\0x", b"\1\0\0\0x"):
            sender.sendto(data, receiver.getsockname())
        count, endpoint = network_stream.collect_datagrams(receiver, {"127.0.0.1"})
    assert (count, endpoint[0]) == (2, "127.0.0.1")


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (mesh.NodeNetwork("n"), "network not_run (0 of 0 pairs)"),
        (
            mesh.NodeNetwork("n", "pass", 9412.0, 9409.4, 0.0, 9000.0, 181.2, pairs=2),
            "network pass (2 of 2 pairs), sends 9412, receives 9409 Mbit/s, loses 0.0%, all-reduces at 181 GB/s",
        ),
        (
            mesh.NodeNetwork(
                "n", "warn", 10.0, 9.0, collective_missing="no libnccl", pairs=2, reasons=["no libnccl"]
            ),
            "network warn (2 of 2 pairs), sends 10, receives 9 Mbit/s, no all-reduce; no libnccl",
        ),
        (
            mesh.NodeNetwork("n", "fail", 10.0, 9.0, pairs=3, failed_pairs=1, reasons=["sends 10"]),
            "network fail (2 of 3 pairs), sends 10, receives 9 Mbit/s",  # the failed task has the reason
        ),
    ],
)
def test_summary_of_a_node_fits_one_line(node, text):
    assert mesh.summarize_node(node) == text
