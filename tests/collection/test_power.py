"""Test the power action and the role as Ansible runs them, with OpenStack's Redfish emulator as the BMC."""

from __future__ import annotations

import json

import pytest

from bmc_emulator import PASSWORD, SYSTEM, USER, run_redfish_emulator
from gpufleet.errors import InputError
from gpufleet.nodes import NodeObservation, Registry
from gpufleet.operations import power

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


POWER_OFF_AFTER_A_WIPE = {
    "ansible.builtin.include_role": {"name": "gpufleet.fleet.wipe", "tasks_from": "power_off.yml"},
    "vars": {"power_user": USER, "power_password": PASSWORD},
}


def test_node_without_a_bmc_is_named_with_the_remedy():
    options = power.PowerOptions("read", USER, PASSWORD)
    with pytest.raises(InputError, match="the node has no BMC; declare bmc in its rack file"):
        power.control_power({}, options)


def test_one_bmc_that_refuses_does_not_stop_the_others(servers, run_play, rack_project):
    result = run_play(
        power_on(required=False),
        {"ansible.builtin.debug": {"msg": "{{ inventory_hostname }} goes on: {{ power.power.state }}"}},
        POWER_OFF_AFTER_A_WIPE,
        limit="gpu01,gpu02",
        ANSIBLE_VERBOSITY="3",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "gpu01 goes on: on" in result.stdout
    assert "gpu02 goes on: unknown" in result.stdout
    assert "power off after GracefulShutdown (was on)" in result.stdout
    assert "gpu02: nothing listens on the BMC's port" in result.stdout + result.stderr
    assert PASSWORD not in result.stdout + result.stderr
    with Registry(f"sqlite:///{rack_project}/.gpufleet/registry.db") as registry:
        first, second = (registry.get_node(name) for name in ("gpu01", "gpu02"))
        values = {value.key: value.value for value in registry.list_node_values(first.id)}
        problems = {value.key: value.value for value in registry.list_node_values(second.id)}
    assert values["observed.power"] == {
        "state": "off",
        "protocol": "redfish",
        "manufacturer": "Sushy Emulator",
        "uuid": SYSTEM,
    }
    assert values["declared.bmc"]["address"] == "127.0.0.1"
    assert problems["observed.power_reasons"][0]["message"] == "nothing listens on the BMC's port"
    assert (first.reachable, second.reachable) != (False, False)
    assert PASSWORD not in json.dumps([values, problems])


def restart(**variables):
    head = {"reboot_before": {"state": {"restart": []}}, "power_user": USER, "power_password": PASSWORD}
    tasks_from = {"name": "gpufleet.fleet.restart", "tasks_from": "restart.yml"}
    return {"ansible.builtin.include_role": tasks_from, "vars": head | variables}


def test_restart_that_fails_over_ssh_continues_through_the_bmc_only_if_allowed(servers, run_play):
    """Ansible refuses to restart a host of the local connection: for the role a restart that fails."""
    refused = run_play(restart(), limit="gpu01")
    assert refused.returncode == 2, refused.stdout
    assert "Contact the BMC" not in refused.stdout
    allowed = run_play(restart(restart_power_cycle=True), limit="gpu01", ANSIBLE_VERBOSITY="1")
    assert "power on after On (was off)" in allowed.stdout
    assert "Keep the time that it took" in allowed.stdout
    assert PASSWORD not in allowed.stdout


def test_identifiers_of_the_node_reach_the_comparison(servers, run_play, rack_project):
    """Test a node whose rack file has no serial: it is known by the UUID that it reported."""
    other = "bdc26000-8930-11eb-8000-7cc255106b08"
    run_play(power_on(state="read"), limit="gpu01")  # registers it
    with Registry(f"sqlite:///{rack_project}/.gpufleet/registry.db") as registry:
        node = registry.get_node("gpu01")
        seen = NodeObservation("commissioning", node.name, node.place, observed={"uuid": other})
        registry.apply_observation(seen)
    shown = {"ansible.builtin.debug": {"msg": "{{ gpufleet_identifiers.uuid }}"}}
    identified = power_on(state="off", identifiers="{{ gpufleet_identifiers }}", required=False)
    result = run_play(shown, identified, limit="gpu01")
    assert other in result.stdout
    assert "belongs to another machine, the UUID differs" in " ".join((result.stdout + result.stderr).split())
