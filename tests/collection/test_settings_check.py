"""Test the check of all roles' settings: defaults pass, and misspelt settings are refused by name."""

from __future__ import annotations

import json
import re
import shutil
import sys

import pytest
import yaml

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.variable_names import (
    COLLECTION,
    LIST_FILE,
    find_misspelt_settings,
    format_misspelt_settings,
    read_known_variables,
)
from gpufleet import fleet
from gpufleet.nodes.blueprint import build_blueprint_variables
from gpufleet.nodes.host import VARIABLE_FIELDS
from gpufleet.nodes.inventory import build_ansible_inventory
from tools import role_variables as tool

KEYS_WITH_NAMES = ("vars", "set_fact", "ansible.builtin.set_fact")
KEYS_WITH_NAME = ("register", "loop_var", "index_var")
PLAYBOOKS = COLLECTION / "playbooks"
CHECK = "Check the settings of all roles"


def misspelt(*names):
    return find_misspelt_settings(names, read_known_variables())


def list_set_names(tree):
    """Return the names that tasks set: registered results, facts, variables of tasks, blocks, plays and loops."""
    if isinstance(tree, list):
        return {name for item in tree for name in list_set_names(item)}
    if not isinstance(tree, dict):
        return set()
    names = {value for key, value in tree.items() if key in KEYS_WITH_NAME and isinstance(value, str)}
    names |= {
        n for key, value in tree.items() if key in KEYS_WITH_NAMES and isinstance(value, dict) for n in value
    }
    return names | {name for value in tree.values() for name in list_set_names(value)}


def test_list_of_known_variables_is_current():
    advice = "run: python -m tools.role_variables"
    assert LIST_FILE.read_text() == tool.format_list(), advice


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("hardening_firewal", "hardening_firewall"),
        ("hardening_firewall_opens", "hardening_firewall_open"),
        ("gpufleet_exporter", "gpufleet_exporters"),
        ("gpufleet_kernel_argument", "gpufleet_kernel_arguments"),
        ("gpufleet_sofware", "gpufleet_software"),
        ("gpufleet_hardening_firewall", "hardening_firewall"),
        ("hardning_firewall", "hardening_firewall"),
        ("Hardening_firewall", "hardening_firewall"),
        ("network_mut", "network_mtu"),
        ("users_and_access_operator", "users_and_access_operators"),
        ("nvidia_driver_keyfolder", "nvidia_driver_key_folder"),
    ],
)
def test_misspelt_setting_is_found_with_the_nearest_one(name, setting):
    assert misspelt(name) == {name: setting}
    assert format_misspelt_settings({name: setting}) == f"{name}: not a setting; did you mean {setting}?"


@pytest.mark.parametrize(
    "name",
    ["network_vlan", "time_of_backup", "system_owner", "storage_vendor", "gpufleet_x", "exporters_port_map",
     "ansible_host", "firewall", "rehearsed_operators", "nvidia_smi_path", "_", "hosts"],
)  # fmt: skip
def test_other_names_are_left_alone(name):
    assert misspelt(name) == {}


def test_no_name_that_our_tasks_set_is_reported():
    roles = list((COLLECTION / "roles").glob("*/*/*.yml")) + list(
        (COLLECTION / "roles").glob("*/systems.yml")
    )
    plays = [*PLAYBOOKS.glob("*.yml"), *PLAYBOOKS.glob("tasks/*.yml")]
    names = {name for file in (*roles, *plays) for name in list_set_names(yaml.safe_load(file.read_text()))}
    assert {"plan_driver_hardware", "containers_needed"} <= names
    for file in roles:
        if file.parent.name in ("defaults", "vars"):
            names |= set(yaml.safe_load(file.read_text()) or {})
    for file in (PLAYBOOKS / "group_vars").glob("*.yml"):
        names |= set(yaml.safe_load(file.read_text()))
    assert len(names) > 300
    assert misspelt(*names) == {}


def test_no_variable_of_the_inventory_is_reported(repo_root, tmp_path):
    hosts = build_ansible_inventory(repo_root, f"sqlite:///{tmp_path / 'none.db'}").hosts
    names = {name for host in hosts for name in host.all_variables}
    names |= {f"gpufleet_{field}" for field in VARIABLE_FIELDS}
    application = {"volumes": [{"name": "a", "size_gib": 1}]}
    blueprint = fleet.Blueprint.model_validate({"hardware": {"mtu": 9000}, "application": application})
    names |= set(build_blueprint_variables(blueprint))
    for file in (repo_root / "inventory/group_vars").glob("*.yaml"):
        names |= set(yaml.safe_load(file.read_text()))
    assert {"gpufleet_application", "gpufleet_slot", "hardening_firewall_open"} <= names
    assert misspelt(*names) == {}
    known = read_known_variables()
    assert {name for name in names if name.startswith("gpufleet_")} <= known.settings | known.internal


def test_every_variable_in_the_docs_is_known(repo_root):
    known = read_known_variables()
    pattern = re.compile(r"(?<![\w/.-])gpufleet_[a-z0-9_]*[a-z0-9](?![\w/.])")
    names = {n for file in (repo_root / "docs").glob("*.md") for n in pattern.findall(file.read_text())}
    assert "gpufleet_exporters" in names
    assert names - known.settings - known.internal == set()


@pytest.fixture
def run_settings_check(ansible, rack_project):
    """Run the check of configure.yml with the roles' defaults, on this machine; nothing after it runs."""

    def run(*arguments, before=()):
        (play,) = yaml.safe_load((PLAYBOOKS / "configure.yml").read_text())
        tasks = play["tasks"][0]["block"]
        assert tasks[0]["name"] == CHECK
        roles = [task for task in tasks if "ansible.builtin.import_role" in task]
        assert len(roles) == len(tasks[0]["gpufleet.fleet.arguments"]["roles"])
        play["tasks"] = [*before, tasks[0], {"ansible.builtin.meta": "end_play"}, *roles]
        play |= {
            "hosts": "blade01", "connection": "local", "become": False,
            "vars": {"ansible_python_interpreter": sys.executable},
        }  # fmt: skip
        playbooks = rack_project / "playbooks"
        playbooks.mkdir()
        shutil.copytree(PLAYBOOKS / "group_vars", playbooks / "group_vars")
        (playbooks / "check.yml").write_text(json.dumps([play]))
        return ansible("ansible-playbook", "-i", "inventory", playbooks / "check.yml", *arguments)

    return run


def test_defaults_of_all_base_roles_pass_the_check_outside_their_roles(run_settings_check):
    result = run_settings_check()
    assert result.returncode == 0, result.stdout + result.stderr
    assert CHECK in result.stdout
    assert "ok=1" in result.stdout


def test_misspelt_group_and_extra_variables_fail_the_check(run_settings_check, rack_project):
    group_variables = {
        "hardening_firewal": "present",
        "network_mtus": "of a role of ours",
        "gpufleet_other_variables": ["network_mtus"],
    }
    (rack_project / "inventory/group_vars/kind_compute_blade.yaml").write_text(
        yaml.safe_dump(group_variables)
    )
    results = [
        {"ansible.builtin.command": "true", "changed_when": False, "register": "storage_scratches"},
        {"ansible.builtin.set_fact": {"network_mtu_": 1}},
    ]
    result = run_settings_check("-e", '{"gpufleet_exporter": ["auto"]}', before=results)
    assert result.returncode == 2, result.stdout + result.stderr
    output = result.stdout + result.stderr
    assert "hardening_firewal: not a setting; did you mean hardening_firewall?" in output
    assert "gpufleet_exporter: not a setting; did you mean gpufleet_exporters?" in output
    assert "network_mtu" not in output
    assert "storage_scratches:" not in output


@pytest.mark.parametrize(
    "case",
    [
        (
            "network_mesh",
            "network_mesh_collective_mb=1",
            "not a setting; did you mean network_mesh_collective_mib?",
        ),
        ("network_mesh", "network_mesh_seconds=soon", "argument 'network_mesh_seconds' is of type str"),
        (
            "burn_in",
            "burn_in_profile=fast",
            "burn_in_profile must be one of: quick, standard, soak, got: fast",
        ),
    ],
)
def test_wrong_settings_of_a_measurement_are_named_before_it_runs(ansible, rack_project, repo_root, case):
    play, variable, message = case
    shutil.copytree(repo_root / "playbooks", rack_project / "playbooks")
    local = [
        "-c",
        "local",
        "-e",
        "ansible_become=false",
        "-e",
        f"ansible_python_interpreter={sys.executable}",
    ]
    command = ["ansible-playbook", "-i", "inventory", "--limit", "blade01", *local, "-e", variable]
    result = ansible(*command, rack_project / f"playbooks/{play}.yml")
    assert result.returncode == 2, result.stdout + result.stderr
    assert message in " ".join((result.stdout + result.stderr).split())


def test_mesh_of_one_host_is_refused(ansible, rack_project):
    plan = {"gpufleet.fleet.network_mesh": {"hosts": {"blade01": "198.18.1.11"}}}
    play = {"hosts": "blade01", "connection": "local", "gather_facts": False, "tasks": [plan]}
    (rack_project / "mesh.yml").write_text(json.dumps([play]))
    result = ansible("ansible-playbook", "-i", "inventory", rack_project / "mesh.yml")
    assert result.returncode == 2
    assert "a mesh needs two hosts without a job, this run has blade01" in " ".join(
        (result.stdout + result.stderr).split()
    )
