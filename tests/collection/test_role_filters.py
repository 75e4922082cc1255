"""Filters that refuse a host's settings, and the comparison of drivers as driver_check.yml calls it."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from ruamel.yaml import YAML

from ansible_collections.gpufleet.fleet.plugins.filter.other_roles import find_role_problem, locate_role
from ansible_collections.gpufleet.fleet.plugins.filter.playbooks import (
    needs_second_driver_plan,
    task_failure_reason,
)
from ansible_collections.gpufleet.fleet.plugins.filter.system import find_supported_system_name
from ansible_collections.gpufleet.fleet.plugins.filter.users_and_access import operator_lockout_reasons

PLAYBOOKS = Path(__file__).resolve().parents[2] / "modules/ansible_collections/gpufleet/fleet/playbooks"


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"os": "debian", "os_version": "13.1"}, "gpufleet does not support debian 13.1; it supports"),
        ({"os": "arch"}, "gpufleet does not support arch; it supports"),
        ({}, "gpufleet does not support an unknown system; it supports"),
        ({"os": None, "os_version": None}, "gpufleet does not support an unknown system; it supports"),
    ],
)
def test_an_unknown_system_is_refused(facts, message):
    with pytest.raises(AnsibleFilterError, match=message):
        find_supported_system_name(facts, supported={"debian-12": "debian-12", "rhel-9": "rhel-9"})


@pytest.mark.parametrize(
    ("login", "settings", "reasons"),
    [
        ("ada", {}, []),
        (
            "ada",
            {"state": "present", "sudo": "nopasswd", "revoked_keys": ["A"], "authorized_keys": ["B"]},
            [],
        ),
        ("ada", {"state": "absent"}, ["its user would be removed"]),
        ("ada", {"sudo": "password"}, ["its sudo must be nopasswd, got password"]),
        ("root", {"sudo": "password"}, []),
        ("root", {"state": "absent"}, ["its user would be removed"]),
        (
            "ada",
            {"sudo": "none", "revoked_keys": ["A"]},
            ["its sudo must be nopasswd, got none", "its keys would be revoked, and no other key is given"],
        ),
    ],
)
def test_settings_that_lock_the_login_out_are_named(login, settings, reasons):
    operators = [{"name": "bob", "state": "absent"}, {"name": login, **settings}]
    assert operator_lockout_reasons(operators, login=login) == reasons
    assert operator_lockout_reasons(operators, login="another") == []


@pytest.mark.parametrize(
    ("repositories", "versions", "is_needed"),
    [([], [None], False), (["r"], ["1", None], True), (["r"], ["1", "2"], False), (["r"], [], False)],
)
def test_a_second_plan_is_needed_for_versions_of_new_repositories(repositories, versions, is_needed):
    packages = [{"name": "p", "version": version} for version in versions]
    assert needs_second_driver_plan({"repositories": repositories, "packages": packages}) is is_needed


def test_a_failed_loop_gives_the_reason_of_its_first_failed_item():
    items = [
        {"failed": False, "msg": "fine"},
        {"failed": True, "msg": "no space"},
        {"failed": True, "msg": "b"},
    ]
    assert task_failure_reason({"msg": "One or more items failed", "results": items}) == "no space"


def test_failure_names_the_type_that_a_setting_has():
    tagged = "<class 'ansible.module_utils._internal._datatag._AnsibleTaggedInt'>"
    reason = task_failure_reason({"msg": f"network_mtu: {tagged} cannot be converted to a dict"})
    assert reason == "network_mtu: int cannot be converted to a dict"


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["local"], ""),
        (
            ["local", "nosuchrole"],
            "role nosuchrole (gpufleet_roles_after) is not installed: list it in requirements.yml ",
        ),
        (
            ["nosuch.role.x", "no"],
            "roles nosuch.role.x, no (gpufleet_roles_after) are not installed: list them in ",
        ),
        ("local", "gpufleet_roles_after is 'local': must be a list of role names"),
        ([""], "gpufleet_roles_after is ['']: must be a list of role names"),
        ([5], "gpufleet_roles_after is [5]: must be a list of role names"),
    ],
)
def test_a_role_that_ansible_does_not_find_is_named(tmp_path, names, problem):
    (tmp_path / "roles/local/tasks").mkdir(parents=True)
    message = find_role_problem(names, "gpufleet_roles_after", str(tmp_path))
    assert message.startswith(problem)
    assert bool(message) is bool(problem)


def test_a_role_with_the_name_of_one_of_ours_is_included_by_its_folder(tmp_path):
    for name in ("common", "mine"):
        (tmp_path / "roles" / name / "tasks").mkdir(parents=True)
    located = [locate_role(name, str(tmp_path)) for name in ("common", "mine", "gpufleet.fleet.common")]
    assert located == [str(tmp_path / "roles/common"), "mine", "gpufleet.fleet.common"]


def test_driver_check_compares_the_hosts_of_a_template(clean_env, tmp_path):
    compare = next(
        play
        for play in YAML(typ="safe").load(PLAYBOOKS / "driver_check.yml")
        if play["name"] == "Compare drivers"
    )
    states = {
        name: {
            "state": {
                "installed": version,
                "loaded": version,
                "user_space": version,
                "restart": [],
                "held": ["nvidia"],
            }
        }
        for name, version in (("gpu1", "550.1"), ("gpu2", "550.1"), ("gpu3", "535.2"))
    }
    hosts = {
        name: {"driver_check_read": state, "gpufleet_template": "train"} for name, state in states.items()
    }
    (tmp_path / "hosts.yaml").write_text(json.dumps({"all": {"hosts": hosts}}))
    (tmp_path / "play.yml").write_text(json.dumps([compare | {"hosts": "all"}]))
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text((PLAYBOOKS / "group_vars/all.yml").read_text())
    result = subprocess.run(
        ["ansible-playbook", "-i", "hosts.yaml", "play.yml"],
        cwd=tmp_path, env=clean_env | {"ANSIBLE_INJECT_FACT_VARS": "False"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 2, result.stdout + result.stderr
    assert re.findall(r"fatal: \[(\w+)\].*\"msg\": \"(.+)\"", result.stdout) == [
        ("gpu3", "driver 535.2; 2 of 3 in train have 550.1")
    ]
    assert "driver 535.2; 2 of 3 in train have 550.1" in result.stdout + result.stderr
