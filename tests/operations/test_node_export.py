"""Test the nodes in other tools' formats, each read by the tool itself where it is at hand."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpufleet.cli.nodes_compare import EXPORT_FORMATS
from gpufleet.nodes.model import Node, NodeHold
from gpufleet.operations.node_export import FORMATS, ExportContext, export_nodes, name_slurm_gpu
from gpufleet.operations.node_probe import SshLogin

AT = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
LOGIN = SshLogin("root", Path("/home/op/my keys/fleet%1"), (Path("/home/op/.ssh/known_hosts"),))


def make_node(name, address="10.0.0.1", **changed):
    plain = {
        "id": f"n-{name}",
        "kind": "gpu_server",
        "state": "ready",
        "state_since": AT,
        "state_reason": "passed",
    }
    return Node(**{**plain, "name": name, "address": address, **changed})


NODES = [
    make_node(
        "gpu-1.lab",
        rack="r1",
        slot="4",
        machine="HGX H100",
        accelerators=({"model": "H100 SXM5 80GB", "count": 8},),
    ),
    make_node(
        "gpu-2", "fd00::2", state="quarantined", accelerators=({"model": "GeForce RTX 3090", "count": 2},)
    ),
    make_node("cloud-1", "gpu.example.org", cloud="aws", pool="train", holds=(NodeHold("drift", "x", AT),)),
    make_node("blade01", None),
]


def export(format_name, nodes=NODES, **context):
    return export_nodes(nodes, format_name, ExportContext(LOGIN, **context))


def test_formats_of_the_command_are_all_there():
    assert tuple(FORMATS) == EXPORT_FORMATS


def test_csv_has_a_row_for_each_node():
    rows = list(csv.DictReader(io.StringIO(export("csv").text)))
    assert [row["name"] for row in rows] == ["gpu-1.lab", "gpu-2", "cloud-1", "blade01"]
    assert rows[0]["accelerators"] == "8x H100 SXM5 80GB"
    assert (rows[2]["holds"], rows[3]["address"]) == ("drift", "")


def test_hosts_file_has_addresses_only():
    exported = export("hosts")
    assert exported.text == "10.0.0.1        gpu-1.lab\nfd00::2         gpu-2\n"
    assert exported.notes == ("blade01 is left out: it has no address",)


def test_ssh_reads_the_config(tmp_path):
    proxy = "-o ProxyCommand='aws ssm start-session --target i-0abc --parameters portNumber=%p'"
    config = tmp_path / "config"
    config.write_text(export("ssh-config", ssh_arguments=lambda node: proxy if node.cloud else None).text)

    def read_ssh_options(name):
        run = subprocess.run(
            ["ssh", "-G", "-F", config, name], capture_output=True, text=True, check=True, timeout=60
        )
        return dict(line.split(" ", 1) for line in run.stdout.splitlines() if " " in line)

    if shutil.which("ssh") is None:
        pytest.skip("no ssh")
    server, rented = read_ssh_options("gpu-1.lab"), read_ssh_options("cloud-1")
    assert (server["hostname"], server["user"], server["stricthostkeychecking"]) == (
        "10.0.0.1",
        "root",
        "true",
    )
    assert server["identityfile"].replace("%%", "%") == "/home/op/my keys/fleet%1"
    assert "proxycommand" not in server
    assert (rented["user"], rented["hostname"]) == ("ubuntu", "gpu.example.org")
    assert rented["proxycommand"].startswith("aws ssm start-session --target i-0abc")


def test_slurm_lines_say_what_the_node_reported():
    observed = {"n-gpu-1.lab": {"observed.cpus": 224, "observed.memory_gib": 2015.3}}
    lines = export("slurm", observed=observed).text.splitlines()
    assert lines[0] == "# slurm.conf needs GresTypes=gpu as well"
    assert dict(word.split("=", 1) for word in lines[1].split()) == {
        "NodeName": "gpu-1.lab",
        "NodeAddr": "10.0.0.1",
        "CPUs": "224",
        "RealMemory": "2063564",
        "Gres": "gpu:h100:8",
        "Feature": "gpu_server,r1,HGX_H100",
        "State": "UNKNOWN",
    }
    assert lines[2:] == [
        "NodeName=gpu-2 NodeAddr=fd00::2 Gres=gpu:geforce_rtx_3090:2 Feature=gpu_server State=UNKNOWN",
        "NodeName=cloud-1 NodeAddr=gpu.example.org Feature=gpu_server,aws,train State=UNKNOWN",
    ]
    assert export("slurm-gres").text.splitlines()[0] == (
        "NodeName=gpu-1.lab AutoDetect=nvml Name=gpu Type=h100"
    )


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("H100 SXM5 80GB", "h100"),
        ("A100 PCIe 40GB", "a100"),
        ("H100 NVL 94GB", "h100"),
        ("GeForce RTX 4090", "geforce_rtx_4090"),
        ("Instinct MI300X", "instinct_mi300x"),
        ("L40S", "l40s"),
    ],
)
def test_gres_type_is_part_of_the_name_that_the_library_gives(model, name):
    assert name_slurm_gpu(model) == name


def test_kubernetes_taints_what_is_out_of_use():
    lines = export("kubernetes").text.splitlines()
    assert lines[0] == (
        "kubectl label node gpu-1.lab --overwrite gpufleet/kind=gpu_server gpufleet/state=ready gpufleet/rack=r1 "
        "gpufleet/machine=HGX-H100"
    )
    assert [line for line in lines if "taint" in line] == [
        "kubectl taint node gpu-2 --overwrite gpufleet/out-of-use=quarantined:NoSchedule",
        "kubectl taint node cloud-1 --overwrite gpufleet/out-of-use=drift:NoSchedule",
    ]


@pytest.mark.parametrize("format_name", EXPORT_FORMATS)
def test_ill_formed_node_is_left_out(format_name):
    bad = [make_node("x\n  ProxyCommand id"), make_node("y", "10.0.0.1 evil"), make_node("localhost")]
    exported = export(format_name, bad)
    assert "ProxyCommand" not in exported.text
    assert "evil" not in exported.text
    assert len(exported.notes) == 3
