"""Test that a misspelt limit is refused from our own inventory, and only where that is all of it."""

from __future__ import annotations

import subprocess

import pytest

from gpufleet import remote
from gpufleet.errors import InputError
from gpufleet.operations import run_plan
from gpufleet.remote.plan import build_ansible_environment, build_inventory_command, parse_inventory_names


@pytest.fixture
def no_ansible(monkeypatch):
    monkeypatch.setattr(remote, "plan_playbook_run", lambda *arguments: arguments)


def test_names_are_those_of_ansible(project):
    env = build_ansible_environment(project)
    command = build_inventory_command(project)
    printed = subprocess.run(
        command, cwd=project / "playbooks", env=env, capture_output=True, text=True, check=True
    )
    hosts, groups = parse_inventory_names(printed.stdout)
    assert run_plan.list_inventory_names(project) == hosts | groups - run_plan.ALWAYS_KNOWN | {
        "new_nodes",
        "new_blades",
    }


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("balde01", "no host or group 'balde01'; did you mean blade01"),
        ("new_blades,!blades-1", "no host or group 'blades-1'; did you mean rack_blades_1?"),
        ("blade[19-22]", r"no host or group 'blade\[21-22\]'; did you mean"),
    ],
)
@pytest.mark.usefixtures("no_ansible")
def test_unknown_name_is_refused_without_ansible(project, limit, message):
    with pytest.raises(InputError, match=f"^--limit: {message}"):
        run_plan.plan_run(project, "site", limit)


@pytest.mark.parametrize(
    "limit", ["new_nodes", "blade[01-03]", "all:!rack_blades_1", "~blade.*", "nope*", "localhost"]
)
@pytest.mark.usefixtures("no_ansible")
def test_known_names_and_expressions_are_left_to_ansible(project, limit):
    assert run_plan.plan_run(project, "site", limit)[2] == limit


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("site.ini", "[spare]\n"),
        ("gpufleet.yaml", "plugin: gpufleet.fleet.nodes\nkeyed_groups: [{key: rack}]\n"),
    ],
)
@pytest.mark.usefixtures("no_ansible")
def test_other_inventories_are_left_to_ansible(project, name, text):
    (project / "inventory" / name).write_text(text)
    assert run_plan.plan_run(project, "site", "spare")
