"""Test the hooks of site.yml: other people's roles together with ours on a booted Debian 12.

The roles in other_roles/ have the shape of geerlingguy.docker and devsec.hardening.ssh_hardening: facts as variables,
variables by family, includes, a template and handlers.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from k3s_page import read_blocks

HERE = Path(__file__).parent
PLAYBOOKS = HERE.parents[1] / "playbooks"
PLAY = "".join(
    f"- ansible.builtin.import_playbook: {PLAYBOOKS}/{name}.yml\n"
    for name in ("commission", "roles_before", "configure", "roles_after")
)
HOOKS_ONLY = "".join(
    f"- ansible.builtin.import_playbook: {PLAYBOOKS}/{name}.yml\n" for name in ("roles_before", "roles_after")
)
K3S_ROLES = ("prereq", "k3s_server", "k3s_agent")
GROUPED = """\
- name: Groups of the page about k3s
  hosts: base01
  gather_facts: false
  tasks:
    - ansible.builtin.group_by: {key: "{{ item }}"}
      loop: [k3s_server, k3s_agent]
"""
HOOKS = {"gpufleet_roles_before": ["shape_server"], "gpufleet_roles_after": ["shape_broken"]}


@pytest.fixture(scope="module")
def run_hooks(lab, boot_hosts):
    boot_hosts("base01")

    def run(variables=HOOKS, play=PLAY, **options):
        environment = {"ANSIBLE_ROLES_PATH": str(HERE / "other_roles")}
        return lab.run(play, "base01", extra_vars=variables, environment=environment, **options)

    return run


@pytest.fixture(scope="module")
def runs(run_hooks, lab):
    before = lab.snapshot("base01")
    check = run_hooks(check=True)
    left_by_check = before ^ lab.snapshot("base01")
    return {"check": check, "left_by_check": left_by_check, "first": run_hooks(), "second": run_hooks()}


def reports(run):
    return {
        result.output["gpufleet"].get("part"): result.output["gpufleet"]
        for result in run.results
        if "part" in result.output.get("gpufleet", {})
    }


def test_role_gets_its_facts_and_its_handlers_run(runs, lab):
    host = lab.host("base01")
    assert json.loads(host.file("/etc/shape-server.json").content_string) == {
        "log-level": "info",
        "os": "Debian",
        "release": "bookworm",
    }
    assert host.package("tree").is_installed
    assert host.file("/run/shape-server-restarted").exists


def test_result_of_each_hook_is_reported_and_our_roles_run_in_between(runs):
    found = reports(runs["first"])
    assert {part: report["event"] for part, report in found.items()} == {
        "roles_before": "configured",
        "base": "configured",
        "roles_after": "configure_failed",
    }
    assert found["roles_after"]["facts"] == {
        "task": "Fail as a role fails",
        "reason": "the vendor's server does not answer",
    }


def test_check_mode_changes_nothing_and_a_second_run_neither(runs):
    assert runs["check"].changed("base01") > 0
    assert runs["left_by_check"] == set()
    assert reports(runs["check"]) == {}
    assert runs["second"].changed_tasks("base01") == []


def test_tags_of_a_role_select_its_tasks(run_hooks, runs):
    tasks = run_hooks(play=HOOKS_ONLY, tags="shape_config").tasks
    assert "Configure the server" in " ".join(tasks)
    assert "Install packages" not in " ".join(tasks)


def test_host_without_hooks_gets_no_further_task(run_hooks, runs):
    tasks = [r.task for r in run_hooks(play=HOOKS_ONLY, variables={}).results_of("base01")]
    assert tasks == ["Group hosts with roles to run before", "Group hosts with roles to run after"]


def test_hook_that_is_not_a_list_is_one_clear_line(run_hooks, runs):
    found = reports(run_hooks(play=HOOKS_ONLY, variables={"gpufleet_roles_before": "geerlingguy.docker"}))
    assert found["roles_before"]["facts"]["reason"].endswith(
        "gpufleet_roles_before is 'geerlingguy.docker': must be a list of role names, such as [geerlingguy.docker]"
    )


@pytest.mark.parametrize("check", [False, True])
def test_role_that_is_not_installed_is_named_before_any_role_runs(run_hooks, runs, check):
    variables = {"gpufleet_roles_after": ["shape_server", "nosuchrole"]}
    run = run_hooks(play=HOOKS_ONLY, variables=variables, check=check)
    assert run.failure_text("base01").startswith(
        "Refuse roles that are not installed: role nosuchrole (gpufleet_roles_after) is not installed: list it in"
    )
    assert "Configure the server" not in " ".join(run.tasks)
    assert ("roles_after" in reports(run)) is not check


def test_role_that_ansible_cannot_include_is_reported(run_hooks, runs):
    variables = {"gpufleet_roles_before": ["shape_broken"], "gpufleet_roles_after": ["shape_orphan"]}
    reports_by_part = reports(run_hooks(play=HOOKS_ONLY, variables=variables))
    assert reports_by_part["roles_before"]["facts"]["reason"] == "the vendor's server does not answer"
    assert reports_by_part["roles_after"]["event"] == "configure_failed"
    assert reports_by_part["roles_after"]["facts"]["reason"].startswith(
        "a role or a file could not be included"
    )


def test_roles_of_a_collection_get_the_variables_of_the_page_about_k3s(lab, boot_hosts):
    boot_hosts("base01")
    variables = {"gpufleet_roles_after": [f"k3s.orchestration.{role}" for role in K3S_ROLES]}
    variables |= YAML(typ="safe").load(read_blocks()["inventory/group_vars/k3s_cluster.yaml"])
    run = lab.run(
        GROUPED + HOOKS_ONLY,
        "base01",
        extra_vars=variables,
        environment={"ANSIBLE_COLLECTIONS_PATH": str(HERE / "other_collections"), "K3S_TOKEN": "joined"},
    )
    assert reports(run)["roles_after"]["facts"] == {"roles": variables["gpufleet_roles_after"]}
    host, address = lab.host("base01"), lab.address("base01")
    assert host.file("/etc/rancher/k3s/config.yaml").content_string == f"tls-san: {address}\ntoken: joined\n"
    environment = host.file("/etc/systemd/system/k3s-agent.service.env").content_string
    assert environment == f"K3S_TOKEN=joined\nK3S_URL=https://{address}:6443\n"
