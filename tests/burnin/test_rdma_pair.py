"""Test RDMA writes between two agents on loopback, with a fake ib_write_bw that listens as the real one does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from gpufleet.burnin import mesh
from gpufleet.burnin.agent import rdma_pair

# The form of perftest's table with --report_gbits (perftest/src/perftest_parameters.h: RESULT_FMT_G, REPORT_FMT).
TABLE = """
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF          Device         : mlx5_0
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      748906           0.00               196.31             0.374432
---------------------------------------------------------------------------------------
"""
FAKE = """#!{python}
import socket, sys
port, device = int(sys.argv[sys.argv.index("-p") + 1]), sys.argv[sys.argv.index("-d") + 1]
if sys.argv[-1][0].isdigit() and sys.argv[-2] != "-D":
    socket.create_connection((sys.argv[-1], port), timeout=5).close()
    print({table!r}.replace("196.31", "98.50" if device == "mlx5_1" else "196.31"))
else:
    with socket.create_server(("127.0.0.1", port)) as server:
        server.accept()[0].close()
"""


def test_average_of_the_table_is_read():
    assert rdma_pair.read_average_gbit(TABLE) == 196.31


@pytest.mark.parametrize(
    "text", ["", "Couldn't connect to 192.0.2.1:18515", " 65536 748906 0.00 many 0.3\n", "1 2 3"]
)
def test_output_without_a_rate_has_none(text):
    assert rdma_pair.read_average_gbit(text) is None


def build_devices(folder, states):
    for device, state in states.items():
        port = folder / device / "ports/1"
        port.mkdir(parents=True)
        (port / "state").write_text(f"{state}\n")


@pytest.fixture
def perftest(tmp_path, monkeypatch):
    """Put a fake ib_write_bw on the path."""
    program = tmp_path / "bin/ib_write_bw"
    program.parent.mkdir()
    program.write_text(FAKE.format(python=sys.executable, table=TABLE))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_only_devices_with_an_active_port_are_measured(tmp_path, perftest):
    build_devices(tmp_path / "devices", {"mlx5_0": "4: ACTIVE", "mlx5_1": "1: DOWN", "mlx5_2": "4: ACTIVE"})
    assert rdma_pair.list_active_devices(str(tmp_path / "devices")) == ["mlx5_0", "mlx5_2"]
    assert rdma_pair.list_active_devices(str(tmp_path / "none")) == []


def test_without_perftest_there_is_no_device(tmp_path, monkeypatch):
    build_devices(tmp_path / "devices", {"mlx5_0": "4: ACTIVE"})
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rdma_pair.list_active_devices(str(tmp_path / "devices")) == []


def test_every_shared_device_is_measured_and_summed(tmp_path, perftest, monkeypatch):
    build_devices(tmp_path / "devices", dict.fromkeys(("mlx5_0", "mlx5_1", "mlx5_9"), "4: ACTIVE"))
    monkeypatch.setattr(rdma_pair.list_active_devices, "__defaults__", (str(tmp_path / "devices"),))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def ask(do, **arguments):
        if do == "rdma_devices":
            return {"devices": ["mlx5_0", "mlx5_1"]}
        return {"ready": rdma_pair.start_rdma_server(arguments["device"], arguments["port"], 1)}

    facts = rdma_pair.measure_rdma("127.0.0.1", port, 1, ask)
    assert facts == {"rdma_gbit": 294.81, "rdma_devices": {"mlx5_0": 196.31, "mlx5_1": 98.5}}
    assert (
        mesh.read_pair_measurement("a", "b", {"sent_mbit": 1, "received_mbit": 1, **facts}).rdma_gbit
        == 294.81
    )


def test_node_that_writes_slowly_by_rdma_is_named():
    names = [f"n{number}" for number in range(6)]
    pairs = [
        mesh.PairMeasurement(
            one, two, 9400.0, 9400.0, rdma_gbit=350.0 if "n3" in (one, two) else 392.0 + at % 3
        )
        for at, (one, two) in enumerate((a, b) for a in names for b in names if a < b)
    ]
    nodes = mesh.judge_mesh(names, pairs)
    assert {name for name, node in nodes.items() if node.outcome != "pass"} == {"n3"}
    assert "writes by RDMA at 350 Gbit/s with most partners" in nodes["n3"].reasons[0]


def test_session_of_nodes_without_rdma_has_no_such_field(agent):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ends = ("--address=127.0.0.1", "--partner=127.0.0.1", f"--port={port}")
    run = [sys.executable, str(agent)]
    subprocess.run([*run, "pair-serve", *ends, "--seconds=30"], check=True, timeout=60)
    done = subprocess.run(
        [*run, "pair-measure", *ends, "--seconds=0.1", "--no-iperf3"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    facts = json.loads(done.stdout)
    assert "error" not in facts
    assert not [name for name in facts if name.startswith("rdma")]
