"""Test that a host name is declared only once in a project: racks, workstations and pool nodes."""

from __future__ import annotations

import pytest

from gpufleet import fleet
from gpufleet.errors import InputError

RACK = """\
plugin: gpufleet.fleet.rack
name: {name}
kind: blades
site: lab
machine: Compute Blade CM4 8GB
nodes: {nodes}
"""
STACK = """\
config:
  gpufleet:fleet:
    owner: ml
    ssh: {{authorized_keys: [{key}], allowed_cidrs: [10.0.0.0/8]}}
    {more}
"""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn example"
POOL = (
    "{name: %s, cloud: aws, region: us-east-1, machine: g5.2xlarge, count: %s, purchase: {kind: on_demand}}"
)


@pytest.fixture
def write_project(tmp_path):
    """Give ``project(racks, **stacks)``: a folder with these racks (name to nodes) and stacks (name to a line)."""

    def lay(racks, **stacks):
        (tmp_path / "inventory").mkdir()
        (tmp_path / "stacks").mkdir()
        for name, nodes in racks.items():
            (tmp_path / f"inventory/{name}.yaml").write_text(RACK.format(name=name, nodes=nodes))
        for name, more in stacks.items():
            (tmp_path / f"stacks/Pulumi.{name}.yaml").write_text(STACK.format(key=KEY, more=more))
        return tmp_path

    return lay


def load_error(root, stack="one"):
    with pytest.raises(InputError) as excinfo:
        fleet.load_fleet(stack, root)
    assert "\n" not in str(excinfo.value)
    return str(excinfo.value)


def test_racks_of_one_stack_cannot_share_names(write_project):
    root = write_project({"a": "blade[01-06]", "b": "blade[05-08]"}, one="racks: [{name: a}, {name: b}]")
    assert load_error(root) == (
        "inventory/b.yaml:6: nodes: blade[05-06] is also declared in inventory/a.yaml: nodes; "
        "rename the nodes in one of the two files"
    )


def test_racks_cannot_share_a_serial(write_project):
    racks = {name: f"[{{name: {name}01, serial: 10000000c0ffee07}}]" for name in "ab"}
    assert load_error(write_project(racks, one="racks: [{name: a}]")) == (
        "inventory/b.yaml:6: nodes[0]: 10000000c0ffee07 is the serial of b01 and, in inventory/a.yaml, the serial of "
        "a01; correct the serial of one"
    )


def test_names_in_an_unused_rack_are_taken(write_project):
    assert "blade01 is also declared" in load_error(
        write_project({"a": "blade01", "b": "blade01"}, one="racks: [{name: a}]")
    )


def test_workstation_cannot_have_the_name_of_a_blade(write_project):
    root = write_project(
        {"a": "blade[01-02]"}, one="workstations: [{name: blade02, machine: MacBook Pro M2 16GB}]"
    )
    assert load_error(root).startswith(
        "stacks/Pulumi.one.yaml:5: gpufleet:fleet.workstations: blade02 is also declared in inventory/a.yaml: nodes;"
    )


def test_node_of_a_pool_cannot_have_the_name_of_a_blade(write_project):
    root = write_project({"a": "one-train-2"}, one=f"pools: [{POOL % ('train', 2)}]")
    assert "gpufleet:fleet.pools: one-train-2 is also declared in inventory/a.yaml" in load_error(root)


def test_pools_of_two_stacks_cannot_generate_the_same_name(write_project):
    root = write_project(
        {}, **{"one": f"pools: [{POOL % ('a-b', 1)}]", "one-a": f"pools: [{POOL % ('b', 1)}]"}
    )
    assert "one-a-b-1 is also declared in stacks/Pulumi.one-a.yaml" in load_error(root)


def test_elastic_pool_reserves_no_host_names(write_project):
    root = write_project({"a": "one-train-1"}, one=f"pools: [{POOL % ('train', '{min: 1, max: 2}')}]")
    assert fleet.load_fleet("one", root).stack == "one"


def test_workstation_in_two_stacks_is_one_machine(write_project):
    station = "workstations: [{name: m2, machine: MacBook Pro M2 16GB}]"
    assert fleet.load_fleet("one", write_project({}, one=station, two=station)).workstations[0].name == "m2"


@pytest.mark.parametrize("name", ["all", "localhost", "missing", "ungrouped"])
def test_reserved_ansible_name_is_refused(write_project, name):
    root = write_project({"a": f"[{{name: {name}, slot: 1}}]"}, one="racks: [{name: a}]")
    assert f"inventory/a.yaml:6: nodes: {name!r} is reserved by Ansible" in load_error(root)


def test_invalid_rack_or_stack_elsewhere_does_not_affect_this_stack(write_project):
    root = write_project({"a": "blade01", "b": "blade[01-"}, one="racks: [{name: a}]", two="pools: 7")
    (root / "stacks/Pulumi.three.yaml").write_text("config: [")
    assert fleet.load_fleet("one", root).racks[0].name == "a"


def test_shipped_project_declares_every_name_and_address_once(repo_root):
    racks = fleet.load_racks(repo_root / "inventory", repo_root)
    fleet.check_unique_host_names(
        [*fleet.list_rack_host_declarations(racks, repo_root), *fleet.list_stack_host_declarations(repo_root)]
    )
    fleet.check_unique_node_addresses(racks, repo_root)
