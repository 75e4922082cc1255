"""Test that the inventory of docs/k3s.md gives the groups and variables that k3s-ansible reads."""

from __future__ import annotations

from ruamel.yaml import YAML

from k3s_page import read_blocks

BLADES = {f"blade{number:02}" for number in range(1, 21)}


def test_inventory_of_the_page_has_a_server_and_its_agents(rack_project, list_inventory):
    for name, text in read_blocks().items():
        if name.startswith("inventory/"):
            path = rack_project / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    inventory = list_inventory()
    groups = {name: set(inventory[f"k3s_{name}"]["hosts"]) for name in ("server", "agent", "cluster")}
    assert groups == {"server": {"blade01"}, "agent": BLADES - {"blade01"}, "cluster": BLADES}
    variables = inventory["_meta"]["hostvars"]
    for host, role in (("blade01", "k3s_server"), ("blade02", "k3s_agent")):
        roles = variables[host]["gpufleet_roles_after"]
        assert roles == ["k3s.orchestration.prereq", f"k3s.orchestration.{role}"]
        assert "cgroup_enable=memory" in variables[host]["gpufleet_kernel_arguments"]["present"]


def test_requirements_of_the_page_pin_the_collection():
    requirements = YAML(typ="safe").load(read_blocks()["playbooks/requirements.yml"])
    assert [sorted(entry) for entry in requirements["collections"]] == [["name", "type", "version"], ["name"]]
