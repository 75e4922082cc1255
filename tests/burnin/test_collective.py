"""An all-reduce over the GPUs of two nodes: two agents on loopback, with stand-ins for the driver and for NCCL."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cuda_software import build_fake_cuda
from gpufleet.burnin import mesh
from gpufleet.burnin.agent import collective
from gpufleet.burnin.agent.gpu_device import VISIBILITY_VARIABLES

# The same in NVIDIA/nccl@021e804 and ROCm/rccl@0023b9b, src/nccl.h.in, without the parameters' names; RCCL's stream is
# HIP's. Both are pointers to a struct.
HEADER = {
    "ncclGetVersion": "int *",
    "ncclGetUniqueId": "ncclUniqueId *",
    "ncclCommInitRank": "ncclComm_t *, int, ncclUniqueId, int",
    "ncclGroupStart": "void",
    "ncclGroupEnd": "void",
    "ncclAllReduce": "const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t",
}
FLAGS = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]


SOURCES = {
    "nvidia": {"libnccl.so.2": "fake_nccl.c"},
    "amd": {"libamdhip64.so.6": "fake_hip.cpp", "librccl.so.1": "fake_nccl.c"},
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """Compile the stand-ins under the names by which the agent looks for the real ones; give a folder per vendor."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("libraries")
    for vendor, sources in SOURCES.items():
        (folder / vendor).mkdir()
        for name, source in sources.items():
            path = Path(__file__).with_name(source)
            program = [compiler, "-std=c++17"] if source.endswith("cpp") else ["cc"]
            subprocess.run([*program, *FLAGS, "-o", folder / vendor / name, path, "-lm"], check=True)
    build_fake_cuda(folder / "nvidia/libcuda.so.1")
    return folder


def run_agent(agent, env, *words):
    """Run the agent to its end; return what it printed."""
    argv, env = [sys.executable, str(agent), *words], {**os.environ, **env}
    return subprocess.run(argv, capture_output=True, text=True, timeout=100, check=True, env=env).stdout


@pytest.fixture
def measure_pair(agent):
    """Give a function that runs a session of two agents, each in its own environment; returns the driver's facts."""

    def run(listener_env, driver_env, mib=1):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        ends = ["--address=127.0.0.1", "--partner=127.0.0.1", f"--port={port}"]
        options = ["--seconds=0.05", "--no-iperf3", f"--collective-mib={mib}"]
        run_agent(agent, listener_env, "pair-serve", *ends, "--seconds=90")
        return json.loads(run_agent(agent, driver_env, "pair-measure", *ends, *options))

    return run


@pytest.fixture
def environment(libraries):
    """Give a function that returns a node's environment: its number of GPUs and other settings of the stand-ins."""

    def build(gpus, vendor="nvidia", **more):
        settings = {
            "FAKE_CUDA_DEVICES": gpus,
            "FAKE_CUDA_MIB": 64,
            "FAKE_HIP_DEVICES": gpus,
            "FAKE_HIP_MIB": 64,
        }
        texts = {name: str(value) for name, value in settings.items()}
        return {"LD_LIBRARY_PATH": str(libraries / vendor), **texts, **more}

    return build


def test_prototypes_are_those_of_both_headers():
    lines = filter(None, collective.PROTOTYPES.splitlines())
    assert {line.partition("(")[0]: line.partition("(")[2].rstrip(")") for line in lines} == HEADER
    assert (collective.ID_BYTES, collective.FLOAT32, collective.SUM) == (128, 7, 0)


@pytest.mark.parametrize("vendor", SOURCES)
@pytest.mark.parametrize(("listening", "driving"), [(1, 1), (8, 8), (2, 3)])
def test_all_gpus_of_both_nodes_take_part(measure_pair, environment, listening, driving, vendor):
    facts = measure_pair(environment(listening, vendor), environment(driving, vendor))
    assert facts["collective_gpus"] == listening + driving
    assert facts["collective_wrong_values"] == 0
    assert facts["collective_gb_per_s"] > 0
    assert facts["collective_is_fake"] is True
    assert "error" not in facts


@pytest.mark.parametrize("vendor", SOURCES)
def test_gpus_that_the_caller_hides_take_part(measure_pair, environment, vendor):
    hidden = dict.fromkeys(VISIBILITY_VARIABLES, "0")  # one that stays would hide all but the first
    facts = measure_pair(environment(2, vendor), environment(3, vendor, **hidden))
    assert facts["collective_gpus"] == 5


@pytest.mark.parametrize("flipping", ["listener", "driver"])
def test_flipped_bit_on_one_node_is_counted(measure_pair, environment, flipping):
    listener, driver = (
        environment(2, **({"FAKE_NCCL_FLIP": "1"} if flipping == name else {}))
        for name in ("listener", "driver")
    )
    facts = measure_pair(listener, driver)
    assert facts["collective_wrong_values"] == 2  # one on each GPU of that node
    pair = mesh.read_pair_measurement("a", "b", facts)
    nodes = mesh.judge_mesh(["a", "b"], [pair])
    assert [node.outcome for node in nodes.values()] == ["fail", "fail"]  # either may be the cause
    assert nodes["a"].reasons == ["b: 2 wrong values of an all-reduce over the GPUs of both"]


@pytest.mark.parametrize(
    ("failing", "text"),
    [
        ("ncclCommInitRank:2", "ncclCommInitRank: ncclSystemError"),
        ("ncclAllReduce:6", "ncclAllReduce: ncclRemoteError"),
    ],
)
def test_error_of_the_library_is_the_pairs_and_costs_nothing_else(measure_pair, environment, failing, text):
    facts = measure_pair(environment(1), environment(1, FAKE_NCCL_FAIL=failing))
    assert text in facts["collective_error"]
    assert facts["sent_mbit"] > 0
    pair = mesh.read_pair_measurement("a", "b", facts)
    nodes = mesh.judge_mesh(["a", "b"], [pair])
    assert [node.outcome for node in nodes.values()] == ["warn", "warn"]


@pytest.mark.parametrize(
    ("names", "text"),
    [((), "no GPU: "), (("libcuda.so.1",), "libnccl.so.2")],
)
def test_node_without_gpus_or_library_is_named(measure_pair, environment, tmp_path, names, text):
    whole = environment(1)
    for name in names:
        shutil.copy(Path(whole["LD_LIBRARY_PATH"]) / name, tmp_path)
    facts = measure_pair({**whole, "LD_LIBRARY_PATH": str(tmp_path)}, whole)
    assert text in facts["collective_missing"]
    assert not {"collective_gb_per_s", "collective_error", "error"} & facts.keys()


def test_nodes_of_different_vendors_are_not_measured(measure_pair, environment):
    facts = measure_pair(environment(1, "amd"), environment(1))
    assert facts["collective_missing"] == "the nodes have GPUs of different vendors"


@pytest.mark.parametrize(
    "change", [{"id": "00"}, {"id": "zz" * 128}, {"ranks": 1}, {"first_rank": 0}, {"mib": 1 << 20}]
)
def test_request_that_cannot_be_is_refused(change):
    request = {"id": "00" * 128, "ranks": 2, "first_rank": 1, "mib": 1, **change}
    with pytest.raises(ValueError, match=r"not a collective's request|non-hexadecimal"):
        collective.join_all_reduce(request)


def test_slow_collective_blames_its_node():
    good = {"sent_mbit": 9400.0, "received_mbit": 9400.0, "datagrams_sent": 4, "datagrams_received": 4}
    names = [f"node{number}" for number in range(8)]
    pairs = [
        mesh.read_pair_measurement(
            one, two, {**good, "collective_gb_per_s": 40.0 if "node3" in {one, two} else 180.0 + at / 10}
        )
        for at, one in enumerate(names)
        for two in names[at + 1 :]
    ]
    nodes = mesh.judge_mesh(names, pairs)
    assert [name for name, node in nodes.items() if node.outcome == "fail"] == ["node3"]
    assert nodes["node3"].reasons[0].startswith("all-reduces at 40 GB/s with most partners, its peers 18")


@pytest.mark.parametrize(("measured", "outcome"), [(True, "warn"), (False, "not_run")])
def test_node_with_gpus_that_did_not_take_part_does_not_pass_like_the_others(measured, outcome):
    good = {"sent_mbit": 9400.0, "received_mbit": 9400.0, "datagrams_sent": 4, "datagrams_received": 4}
    missing = {"collective_missing": "no libnccl", "partner_collective_missing": "no libnccl"}
    names = ["node1", "node2", "node3"]
    pairs = [
        mesh.read_pair_measurement(
            "node1", "node2", good | ({"collective_gb_per_s": 180.0} if measured else {})
        ),
        mesh.read_pair_measurement("node1", "node3", good | missing),
        mesh.read_pair_measurement("node2", "node3", good | missing),
    ]
    nodes = mesh.judge_mesh(names, pairs)
    assert [node.outcome for node in nodes.values()] == ["pass", "pass", outcome]
    assert nodes["node3"].collective_missing == "no libnccl"
    assert nodes["node3"].reasons == ["no all-reduce over its GPUs: no libnccl"]
    assert nodes["node1"].collective_missing == ""


def test_all_reduce_missing_on_every_pair_is_not_run_and_hides_no_failure():
    missing = {"own_collective_missing": "no libnccl", "partner_collective_missing": "no libnccl"}
    names = ["node1", "node2", "node3", "node4"]
    pairs = [
        mesh.read_pair_measurement(
            one,
            two,
            {"sent_mbit": rate, "received_mbit": rate, "collective_missing": "no libnccl", **missing},
        )
        for at, one in enumerate(names)
        for two in names[at + 1 :]
        for rate in [100.0 if two == "node4" else 9400.0]
    ]
    nodes = mesh.judge_mesh(names, pairs)
    assert [node.outcome for node in nodes.values()] == ["not_run", "not_run", "not_run", "fail"]
    assert {node.reasons[-1] for node in nodes.values()} == {"no all-reduce over its GPUs: no libnccl"}
    assert mesh.summarize_node(nodes["node1"]).startswith("network not_run (3 of 3 pairs), sends 9400, ")


def test_node_without_gpus_may_miss_the_all_reduce():
    good = {"sent_mbit": 9400.0, "received_mbit": 9400.0}
    pairs = [
        mesh.read_pair_measurement("node1", "node2", {**good, "collective_gb_per_s": 180.0}),
        mesh.read_pair_measurement("node1", "node3", {**good, "collective_missing": "no GPU: "}),
        mesh.read_pair_measurement("node2", "node3", {**good, "collective_missing": "no GPU: "}),
    ]
    nodes = mesh.judge_mesh(["node1", "node2", "node3"], pairs)
    assert {node.outcome for node in nodes.values()} == {"pass"}


@pytest.mark.parametrize("on_bus", [0, 2])
def test_gpus_that_cannot_take_part_are_counted_on_the_bus(monkeypatch, on_bus):
    monkeypatch.setattr(
        collective,
        "list_gpu_pci_addresses",
        lambda _host, vendor: ["x"] * on_bus * (vendor == collective.AMD),
    )
    monkeypatch.setattr(collective, "open_gpus", raise_library_error)
    assert collective.inspect_gpus() == {"missing": "no GPU: broken", "on_bus": on_bus}


def raise_library_error():
    raise collective.LibraryError("no GPU: broken")
