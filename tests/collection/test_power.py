"""Test the power action and the role as Ansible runs them, with OpenStack's Redfish emulator as the BMC."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from bmc_emulator import PASSWORD, USER, run_redfish_emulator
from gpufleet.nodes import Registry

SERVERS = """\
plugin: gpufleet.fleet.rack
name: servers-1
kind: servers
site: lab
machine: 8-GPU server
accelerators: [{model: H100 SXM5 80GB, count: 8}]
network: {cidr: 10.9.0.0/24}
bmc: {protocol: redfish, port: PORT, ca_file: CA, network: {cidr: 127.0.0.0/24, slot_offset: 0}}
nodes: "gpu[01-02]"
"""


@pytest.fixture
def servers(rack_project, tmp_path):
    """Give a rack of two servers: the BMC of the first is the emulator, that of the second does not answer."""
    pytest.importorskip("sushy_tools", reason="needs the Python package sushy-tools")
    with run_redfish_emulator(tmp_path / "bmc") as bmc:
        text = SERVERS.replace("PORT", str(bmc["port"])).replace("CA", bmc["ca_file"])
        (rack_project / "inventory/servers-1.yaml").write_text(text)
        yield bmc


def power_on(**more):
    task = {
        "node": "{{ inventory_hostname }}",
        "bmc": "{{ gpufleet_bmc }}",
        "user": USER,
        "password": PASSWORD,
        "state": "on",
    }
    return {"gpufleet.fleet.power": {**task, **more}, "register": "power"}


def test_one_bmc_that_refuses_does_not_stop_the_others(servers, run_play, rack_project):
    result = run_play(
        power_on(required=False),
        {"ansible.builtin.debug": {"msg": "{{ inventory_hostname }} goes on: {{ power.power.state }}"}},
        limit="gpu01,gpu02",
        ANSIBLE_VERBOSITY="3",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "gpu01 goes on: on" in result.stdout
    assert "gpu02 goes on: unknown" in result.stdout
    assert "gpu02: nothing listens on the BMC's port" in result.stdout + result.stderr
    assert PASSWORD not in result.stdout + result.stderr
    with Registry(f"sqlite:///{rack_project}/.gpufleet/registry.db") as registry:
        first, second = (registry.get_node(name) for name in ("gpu01", "gpu02"))
        values = {value.key: value.value for value in registry.list_node_values(first.id)}
        problems = {value.key: value.value for value in registry.list_node_values(second.id)}
    assert values["observed.power"] == {
        "state": "on",
        "protocol": "redfish",
        "manufacturer": "Sushy Emulator",
    }
    assert values["declared.bmc"]["address"] == "127.0.0.1"
    assert problems["observed.power_reasons"][0]["message"] == "nothing listens on the BMC's port"
    assert (first.reachable, second.reachable) != (False, False)
    assert PASSWORD not in json.dumps([values, problems])
