"""Test what the inventory and the judgement expect of a node, from its declaration."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpufleet.burnin.agent.settings import parse_settings
from gpufleet.errors import InputError
from gpufleet.fleet import load_rack
from gpufleet.nodes import Node, NodeIdentity, NodeObservation, build_expected_hardware, build_rack_report
from gpufleet.nodes.declaration import NEVER, list_declared_nodes, list_machine_accelerators
from gpufleet.nodes.host import make_inventory_host
from gpufleet.nodes.inventory import assemble_ansible_inventory

SERVERS = """\
plugin: gpufleet.fleet.rack
name: r1
kind: servers
site: lab
machine: GPU server
storage_gb: 500
accelerators: [{model: H100 SXM5 80GB, count: 8}]
nodes: gpu[01-02]
"""


def cloud_node(cloud, machine):
    return Node(
        "n-1", "a", "cloud_vm", "expected", NEVER, "", cloud=cloud, machine=machine,
        accelerators=tuple(list_machine_accelerators(machine)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cloud", "machine", "expected"),
    [
        ("aws", "g4dn.12xlarge",
         {"expect_gpus": 4, "expect_gpu_models": "T4", "expect_memory_gib": 192.0, "expect_drive_gib": 838.2,
          "expect_drives": 1}),
        ("gcp", "a2-highgpu-1g",
         {"expect_gpus": 1, "expect_gpu_models": "A100 SXM4 40GB", "expect_memory_gib": 85.0}),  # disks by choice
        ("azure", "Standard_ND96isr_MI300X_v5",
         {"expect_amd_gpus": 8, "expect_gpu_models": "Instinct MI300X", "expect_memory_gib": 1850.0,
          "expect_drive_gib": 3584.0, "expect_drives": 8}),
        (None, "Compute Blade CM4 8GB", {"expect_memory_gib": 8.0}),
        (None, "MacBook Pro M2 16GB", {"expect_memory_gib": 16.0}),
        ("aws", "a machine of tomorrow", {}),
    ],
)  # fmt: skip
def test_machine_type_gives_what_is_expected(cloud, machine, expected):
    assert build_expected_hardware(cloud_node(cloud, machine)) == expected


@pytest.fixture
def rack(tmp_path):
    (tmp_path / "r1.yaml").write_text(SERVERS)
    return load_rack(tmp_path / "r1.yaml", tmp_path)


def test_rack_file_reaches_the_host_variable_and_the_registry(registry, rack):
    expected = {"expect_gpus": 8, "expect_gpu_models": "H100 SXM5 80GB", "expect_drive_gib": 465.7}
    registry.apply_source_report(build_rack_report(rack, datetime.now(UTC)))
    declared = list_declared_nodes(rack)
    for nodes in (registry.list_nodes(), declared):
        hosts = assemble_ansible_inventory(nodes, declared).hosts
        assert [host.vars["gpufleet_burn_in_expected"] for host in hosts] == [expected] * 2
    assert build_expected_hardware(registry.get_node("gpu01")) == expected


def test_hardware_of_the_rack_file_reaches_what_is_expected(tmp_path, registry):
    fabric = "{kind: infiniband, adapters: 8, gbit_per_s: 3200, devices: 'mlx5_[0-6,9]'}"
    hardware = f"hardware: {{memory_gib: 2048, drives: 8, interfaces: 2, nvlinks: 18, fabric: {fabric}}}"
    (tmp_path / "r1.yaml").write_text(f"{SERVERS}{hardware}\n")
    rack = load_rack(tmp_path / "r1.yaml", tmp_path)
    registry.apply_source_report(build_rack_report(rack, datetime.now(UTC)))
    for node in (registry.get_node("gpu01"), list_declared_nodes(rack)[0]):
        expected = build_expected_hardware(node)
        assert expected == {
            "expect_gpus": 8, "expect_gpu_models": "H100 SXM5 80GB", "expect_memory_gib": 2048,
            "expect_drive_gib": 465.7, "expect_drives": 8, "expect_interfaces": 2, "expect_fabric": "infiniband",
            "expect_nvlinks": 18,
            "expect_fabric_adapters": 8, "expect_fabric_gbit_per_s": 3200,
            "expect_fabric_devices": "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9",
        }  # fmt: skip
        assert parse_settings({name: str(value) for name, value in expected.items()}) == expected


def test_shared_nvswitch_is_declared_and_nothing_else(tmp_path):
    (tmp_path / "r1.yaml").write_text(f"{SERVERS}hardware: {{nvswitch: shared}}\n")
    rack = load_rack(tmp_path / "r1.yaml", tmp_path)
    assert build_expected_hardware(list_declared_nodes(rack)[0])["expect_nvswitch"] == "shared"
    (tmp_path / "r1.yaml").write_text(f"{SERVERS}hardware: {{nvswitch: none}}\n")
    with pytest.raises(InputError, match="nvswitch"):
        load_rack(tmp_path / "r1.yaml", tmp_path)


def test_agent_knows_every_parameter_that_the_inventory_passes(rack):
    cards = [{"model": "Instinct MI300X", "memory_gib": 192, "count": 8}]
    node = list_declared_nodes(rack)[0]
    both = replace(node, accelerators=(*node.accelerators, *cards), machine="Standard_ND96isr_MI300X_v5")
    expected = build_expected_hardware(both)
    assert {"expect_gpus", "expect_amd_gpus", "expect_memory_gib", "expect_drive_gib"} < expected.keys()
    assert parse_settings({name: str(value) for name, value in expected.items()}) == expected


def test_node_cannot_change_what_is_expected_of_it(registry, rack):
    registry.apply_source_report(build_rack_report(rack, datetime.now(UTC)))
    before = build_expected_hardware(registry.get_node("gpu01"))
    claims = {"accelerators": [], "machine": "none", "storage_gib": 1.0, "hardware": {}}
    registry.apply_observation(
        NodeObservation("burn_in", "gpu01", NodeIdentity(rack="r1", slot="1"), observed=claims)
    )
    assert build_expected_hardware(registry.get_node("gpu01")) == before


def test_mtu_of_the_template_is_expected():
    for variables, expected in (
        ({"gpufleet_hardware": {"mtu": 9000}}, 9000),
        ({"gpufleet_hardware": {}}, None),
    ):
        host = make_inventory_host("a", cloud_node("aws", "p5.48xlarge"), None, variables)
        assert host.vars["gpufleet_burn_in_expected"].get("expect_mtu") == expected
