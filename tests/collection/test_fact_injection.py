"""Test that a node that forges facts with the names of all settings changes none of them, wherever Ansible runs."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from ansible import constants
from ansible.errors import AnsibleError

from ansible_collections.gpufleet.fleet.plugins.filter.playbooks import select_fact_variables
from ansible_collections.gpufleet.fleet.plugins.plugin_utils import fact_injection
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.variable_names import (
    COLLECTION,
    read_known_variables,
)

KNOWN = read_known_variables()
ROLES = sorted(path.name for path in (COLLECTION / "roles").iterdir() if path.is_dir())
ACTIONS = sorted(path.stem for path in (COLLECTION / "plugins/action").glob("*.py"))
GATE = "gpufleet.fleet.fact_injection"
REFUSAL = "gpufleet.fleet refuses to run: Ansible's setting INJECT_FACTS_AS_VARS is True"
NAME_REFUSAL = "gpu01 reports facts with the names of settings (application_container_files, "
PASSWORD = "secret-of-bmc"
RACK = """\
plugin: gpufleet.fleet.rack
name: servers-1
kind: servers
site: lab
machine: 8-GPU server
accelerators: [{model: H100 SXM5 80GB, count: 8}]
network: {cidr: 10.9.0.0/24}
bmc: {protocol: redfish, port: 1, ca_file: /nowhere, network: {cidr: 127.0.0.0/24, slot_offset: 0}}
nodes: "gpu[01-02]"
"""
LIE = {"ansible.builtin.ping": {}}
OWN_PLAYS = {
    "role": [{"ansible.builtin.import_role": {"name": "gpufleet.fleet.power"}}],
    "included role": [{"ansible.builtin.include_role": {"name": "gpufleet.fleet.power"}}],
    "one file of a role": [
        {"ansible.builtin.include_role": {"name": "gpufleet.fleet.power", "tasks_from": "switch.yml"}}
    ],
    "role of a role": [
        {"ansible.builtin.include_role": {"name": "gpufleet.fleet.wipe", "tasks_from": "power_off.yml"}}
    ],
    "action": [
        {
            "gpufleet.fleet.power": {
                "node": "{{ inventory_hostname }}",
                "bmc": "{{ gpufleet_bmc }}",
                "user": "{{ power_user }}",
                "password": "{{ power_password }}",
            }
        }
    ],
}


@contextmanager
def listen_as_bmc():
    """Yield a port of this machine and the list of what clients sent to it: nothing may ever be in it."""
    contacts = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept_clients():
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.settimeout(1)
                    contacts.append(client.recv(65536))

        threading.Thread(target=accept_clients, daemon=True).start()
        try:
            yield server.getsockname()[1], contacts
        finally:
            server.shutdown(socket.SHUT_RDWR)


def forge_facts(port):
    """Return facts with every name that a role, a play or the inventory uses."""
    bmc = {"protocol": "redfish", "address": "127.0.0.1", "port": port, "certificate_sha256": "0" * 64}
    mappings = dict.fromkeys(("gpufleet_bmc", "power_bmc"), bmc)
    plain = dict.fromkeys((*KNOWN.settings, *KNOWN.internal, "driver_plan", "drivers_failed"), "forged")
    options = {"ansible_remote_tmp": "/forged", "ansible_shell_type": "sh", "ansible_user": "forged"}
    return (
        plain | options | mappings | {"power_state": "cycle", "power_force": True, "gpufleet_is_busy": False}
    )


@pytest.fixture
def lying_node(rack_project, repo_root, tmp_path):
    """Give the project's folder and the contacts of a BMC that the lying gpu01 claims to have."""
    (rack_project / "inventory/servers-1.yaml").write_text(RACK)
    shutil.copytree(repo_root / "playbooks", rack_project / "playbooks")
    python = tmp_path / "lying-python"
    with listen_as_bmc() as (port, contacts):
        answer = tmp_path / "answer.json"
        answer.write_text(json.dumps({"changed": False, "ansible_facts": forge_facts(port)}))
        python.write_text(f'#!/bin/sh\ncat > /dev/null\nexec cat "{answer}"\n')
        python.chmod(0o755)
        variables = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_pipelining": True,
            "ansible_python_interpreter": str(python),
            "power_user": "operator",
            "power_password": PASSWORD,
        }
        (rack_project / "inventory/group_vars/rack_servers_1.yaml").write_text(yaml.safe_dump(variables))
        yield rack_project, contacts


@pytest.fixture
def run_playbook(lying_node, clean_env):
    """Run a playbook on the lying node, with Ansible's defaults unless ``env`` says otherwise."""
    project, _ = lying_node

    def run(*arguments, folder=".", **env):
        command = [Path(sys.executable).with_name("ansible-playbook"), "--limit", "gpu01", *arguments]
        return subprocess.run(
            command, cwd=project / folder, env=clean_env | {"ANSIBLE_NOCOLOR": "1"} | env,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    return run


def write_play(project, *tasks):
    (project / "own.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [*tasks]}]))
    return ("-i", "inventory", "own.yml")


def read_output(result):
    return " ".join((result.stdout + result.stderr).split())


@pytest.mark.parametrize(("inject", "effect"), [("True", "forged"), ("False", "operator")])
def test_facts_replace_the_inventory_only_where_ansible_makes_variables_of_them(
    run_playbook, lying_node, inject, effect
):
    """The attack itself, without a role of ours; and that every setting is out of reach without fact injection."""
    project, _ = lying_node
    settings = sorted(KNOWN.settings - {"gpufleet_bmc", "power_bmc", "power_state", "power_force"})
    settings = [name for name in settings if name != "gpufleet_is_busy"]
    host_vars = project / "inventory/host_vars"
    host_vars.mkdir()
    (host_vars / "gpu01.yaml").write_text(yaml.safe_dump(dict.fromkeys(settings, "operator")))
    values = f"{{{{ {settings} | map('extract', hostvars[inventory_hostname]) | unique | list }}}}"
    arguments = write_play(project, LIE, {"ansible.builtin.debug": {"msg": f"VALUES {values}"}})
    result = run_playbook(*arguments, ANSIBLE_INJECT_FACT_VARS=inject)
    assert f"VALUES ['{effect}']" in result.stdout, read_output(result)
    assert len(settings) > 200


@pytest.mark.parametrize("play", OWN_PLAYS)
def test_own_play_with_ansible_s_defaults_is_refused(run_playbook, lying_node, play):
    project, contacts = lying_node
    rescued = {"ansible.builtin.debug": {"msg": "the rescue ran"}}
    block = (
        {"block": OWN_PLAYS[play], "rescue": [rescued]} if play != "action" else {"block": OWN_PLAYS[play]}
    )
    result = run_playbook(*write_play(project, LIE, block))
    assert result.returncode != 0
    assert REFUSAL in read_output(result)
    assert "ANSIBLE_INJECT_FACT_VARS=false in the environment" in read_output(result)
    assert "the rescue ran" not in result.stdout
    assert contacts == []
    assert PASSWORD not in result.stdout + result.stderr


def test_action_refuses_if_a_person_skips_the_role_s_own_check(run_playbook, lying_node):
    project, contacts = lying_node
    arguments = write_play(project, LIE, *OWN_PLAYS["included role"])
    result = run_playbook(*arguments, "--skip-tags", "always")
    assert result.returncode == 2
    assert REFUSAL in read_output(result)
    assert contacts == []


def test_password_does_not_go_to_a_forged_bmc_without_fact_injection(run_playbook, lying_node):
    """The second lock: the action of the password compares the names of facts itself. The host continues after each."""
    project, contacts = lying_node
    blocks = [
        {
            "block": tasks,
            "rescue": [
                {"ansible.builtin.debug": {"msg": f"CASE {play}: {{{{ ansible_failed_result.msg }}}}"}}
            ],
        }
        for play, tasks in OWN_PLAYS.items()
    ]
    result = run_playbook(*write_play(project, LIE, *blocks), ANSIBLE_INJECT_FACT_VARS="False")
    messages = read_output(result).split("CASE ")[1:]
    assert [message.partition(":")[0] for message in messages] == [*OWN_PLAYS], read_output(result)
    for message in messages:
        assert NAME_REFUSAL in message.partition("TASK [")[0]
        assert "only the inventory may set them" in message.partition("TASK [")[0]
    assert contacts == []


@pytest.mark.parametrize("playbook", ["site", "power", "reboot", "retire", "identify", "plan"])
def test_playbook_run_from_the_repository_s_root_is_refused(run_playbook, lying_node, playbook):
    _, contacts = lying_node
    more = ("-e", "gpufleet_reboot_power_cycle=true", "-e", "gpufleet_reboot_always=true")
    if playbook == "identify":
        more = ("-e", '{"identify_light": "lit"}', "--limit", "blade01", "-c", "local")
    result = run_playbook("-i", "inventory", f"playbooks/{playbook}.yml", *more)
    assert result.returncode != 0
    assert f"{REFUSAL} (no configuration file was read)" in read_output(result)
    assert " ok=0 " in result.stdout or "PLAY RECAP" not in result.stdout
    assert contacts == []


@pytest.mark.parametrize("playbook", ["site", "power"])
def test_playbook_in_a_folder_that_all_can_write_to_is_refused(run_playbook, lying_node, playbook):
    """Ansible reads no ansible.cfg there."""
    project, contacts = lying_node
    (project / "playbooks").chmod(0o777)
    result = run_playbook("-i", "../inventory", f"{playbook}.yml", folder="playbooks")
    assert result.returncode != 0
    assert "world writable directory" in read_output(result)
    assert REFUSAL in read_output(result)
    assert contacts == []


def test_playbook_in_its_own_folder_runs_and_keeps_the_operator_s_bmc(run_playbook, lying_node):
    _, contacts = lying_node
    result = run_playbook("-i", "../inventory", "power.yml", folder="playbooks")
    assert REFUSAL not in read_output(result)
    assert "/nowhere" in read_output(result), "the BMC of the rack file was asked"
    assert contacts == []


def test_facts_of_an_earlier_run_in_a_cache_change_nothing(run_playbook, lying_node, tmp_path):
    project, contacts = lying_node
    cache = {
        "ANSIBLE_CACHE_PLUGIN": "ansible.builtin.jsonfile",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp_path / "facts"),
    }
    first = run_playbook(*write_play(project, LIE), **cache)
    assert first.returncode == 0, read_output(first)
    (cached,) = (tmp_path / "facts").iterdir()
    assert "gpufleet_bmc" in cached.read_text()
    result = run_playbook("-i", "inventory", "playbooks/power.yml", **cache)
    assert result.returncode != 0
    assert REFUSAL in read_output(result)
    assert contacts == []


def read_dependencies(role):
    meta = yaml.safe_load((COLLECTION / "roles" / role / "meta/main.yml").read_text())
    return [entry if isinstance(entry, str) else entry["role"] for entry in meta["dependencies"]]


def read_conditions(role):
    meta = yaml.safe_load((COLLECTION / "roles" / role / "meta/main.yml").read_text())
    return [entry for entry in meta["dependencies"] if not isinstance(entry, str) and "when" in entry]


@pytest.mark.parametrize("role", [role for role in ROLES if role != GATE.rpartition(".")[2]])
def test_every_role_depends_on_the_refusal_without_a_condition(role):
    first = read_dependencies(role)[0]
    chain = [role]
    while first != GATE:
        chain.append(first.rpartition(".")[2])
        first = read_dependencies(chain[-1])[0]
    assert [condition for name in chain for condition in read_conditions(name)] == []


def test_every_action_refuses_before_it_reads_its_options(run_play):
    tasks = [{f"gpufleet.fleet.{name}": {}, "ignore_errors": True} for name in ACTIONS]
    result = run_play(*tasks, ANSIBLE_INJECT_FACT_VARS="True")
    assert result.stdout.count(f'"msg": "Task failed: {REFUSAL}') == len(ACTIONS), result.stdout
    assert {"power", "resources", "repositories", "sshd", "arguments"} <= {*ACTIONS}


def test_no_play_or_role_reads_a_plan_or_a_setting_from_facts():
    files = [*(COLLECTION / "playbooks").rglob("*.yml"), *(COLLECTION / "roles").rglob("*.yml")]
    readers = [path.name for path in files if "ansible_facts" in path.read_text()]
    assert readers == ["argument_specs.yml"], "only the documentation of the role fact_injection names them"


def test_facts_for_other_people_s_roles_set_no_variable_of_ours_or_of_ansible():
    reserved = (*constants.INTERNAL_STATIC_VARS, "ansible_failed_result", "ansible_host")
    facts = forge_facts(1) | dict.fromkeys(reserved, "forged")
    gathered = {"ansible_facts": facts | {"ansible_distribution": "Debian"}}
    assert select_fact_variables(gathered) == {"ansible_distribution": "Debian"}


@pytest.mark.parametrize("value", [True, None, "", 0])
def test_everything_but_a_certain_no_is_refused(monkeypatch, value):
    monkeypatch.setattr(constants.config, "get_config_value", lambda _: value)
    with pytest.raises(AnsibleError, match="refuses to run"):
        fact_injection.refuse_fact_injection()


def test_setting_that_ansible_no_longer_has_is_refused(monkeypatch):
    def fail(_):
        raise AnsibleError("Requested entry was not defined in configuration")

    monkeypatch.setattr(constants.config, "get_config_value", fail)
    with pytest.raises(AnsibleError, match="cannot read Ansible's setting INJECT_FACTS_AS_VARS: Requested"):
        fact_injection.refuse_fact_injection()
