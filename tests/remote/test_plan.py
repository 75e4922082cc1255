"""Test parsing of Ansible's listings before a run, and refusal of unknown names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.remote import plan as planning
from gpufleet.remote.host_pattern import parse_host_pattern
from gpufleet.remote.plan import (
    build_ansible_environment,
    find_ansible_config,
    find_ansible_error,
    find_ansible_folder,
    find_playbook,
    find_unknown_host_patterns,
    list_playbook_names,
    parse_inventory_names,
    parse_listed_hosts,
    parse_listed_tags,
    parse_listed_tasks,
    plan_playbook_run,
    run_ansible_command,
)
from gpufleet.remote.task_selection import parse_task_selection

CASES = Path(__file__).resolve().parents[1] / "cases/remote"
WARNING = "[WARNING]: Could not match supplied host pattern, ignoring: "


def test_hosts_and_tasks_are_read_from_the_listing():
    listing = (CASES / "site-list.txt").read_text()
    assert sorted(parse_listed_hosts(listing)) == [f"poc-blade0{slot}" for slot in range(1, 5)]
    tasks = parse_listed_tasks(listing)
    assert (tasks[0], tasks[-1], len(tasks)) == ("Identify the node", "burn_in : Measure", 23)


@pytest.mark.parametrize(
    ("limit", "ignored", "unknown"),
    [
        ("new_blades:!blde01", ["burn_in_now", "blde01", "blde01"], ["blde01"]),
        ("new_blades", ["burn_in_now", "blde01"], []),
        ("new_blades,nosuch[0]", ["nosuch"], ["nosuch"]),
        ("nosuch[0:2]", ["nosuch"], ["nosuch"]),
        ("all:!!blade01", ["!blade01"], ["!blade01"]),
        ("all:&~nosuch", ["~nosuch"], ["~nosuch"]),
        ("blade01,localhost", [], ["localhost"]),
        ("all:!localhost", [], []),
    ],
)
def test_unknown_patterns_are_only_those_of_the_limit(limit, ignored, unknown):
    err = "".join(f"{WARNING}{name}\n" for name in ignored)
    assert find_unknown_host_patterns(err, parse_host_pattern(limit)) == unknown


def test_this_machine_is_known_if_it_is_in_the_inventory():
    assert find_unknown_host_patterns("", parse_host_pattern("localhost"), ["localhost"]) == []


def test_wrapped_warning_is_read():
    err = "[WARNING]: Could not match supplied host\npattern, ignoring: x1"
    assert find_unknown_host_patterns(err, parse_host_pattern("x1")) == ["x1"]


@pytest.mark.parametrize(
    ("err", "line"),
    [
        ("[WARNING]: w\n[ERROR]: no such file\nOrigin: x\n", "no such file"),
        ("ERROR! old wording\n", "old wording"),
        ("Traceback\n\nKeyError: 'x'\n\n", "KeyError: 'x'"),
        ("", "Ansible stopped without a reason"),
    ],
)
def test_first_error_is_returned_as_one_line(err, line):
    assert find_ansible_error(err) == line


def test_inventory_names_are_groups_and_hosts():
    listing = json.dumps(
        {"_meta": {"hostvars": {"b1": {}}}, "all": {"children": ["g"]}, "g": {"hosts": ["b1"]}}
    )
    assert parse_inventory_names(listing) == ({"b1"}, {"all", "g"})


def test_host_keys_are_checked_despite_ansible_settings(tmp_path):
    env = build_ansible_environment(tmp_path, {"ANSIBLE_HOST_KEY_CHECKING": "False", "PATH": "/bin"})
    assert env["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert env["PATH"].endswith(":/bin")


@pytest.mark.parametrize(
    ("play", "remedy"),
    [
        ("sites", r"did you mean site\?$"),
        ("upgrade-os", r"did you mean upgrade_os( or upgrade_os_rollback)?\?$"),
        ("xyzzy", "plays: application, .*burn_in.* site"),
    ],
)
def test_unknown_play_is_refused_with_the_nearest_or_all_names(project, play, remedy):
    with pytest.raises(InputError, match=f"play '{play}' not found; {remedy}"):
        plan_playbook_run(project, play)


def test_selected_tasks_are_those_of_ansible(project):
    selection = parse_task_selection(["gpu_settings, nosuch"], ["burn_inn"])
    plan = plan_playbook_run(project, "burn_in", "all", selection)
    assert plan.tasks
    assert "burn_in : Measure" not in plan.tasks
    lines = "warning: burn_in.yml lists no task with the tag"
    included = "only roles that are included during the run can have it"
    assert plan.warnings == (
        f"{lines} 'gpu_settings'; {included}",
        f"{lines} 'nosuch'; {included}",
        f"{lines} 'burn_inn'; did you mean burn_in?",
    )


@pytest.mark.parametrize("value", ["", "a,,b", "-e x=1", "a b", "a;reboot", "$(x)", "é", "'"])
def test_option_that_is_not_a_tag_is_refused(value):
    with pytest.raises(InputError, match=r"^--skip-tags: .* is not a tag; write names like sshd,audit$"):
        parse_task_selection(["sshd"], [value])


def test_tags_become_options_of_ansible():
    assert parse_task_selection(["a,b", "b"], ["c.d:e-f"]).arguments == [
        "--tags", "a,b", "--skip-tags", "c.d:e-f",
    ]  # fmt: skip
    assert parse_task_selection([], []).arguments == []


def test_tags_are_read_from_the_listing():
    listing = (
        "    tasks:\n      one\tTAGS: [a, b]\n      two : three\tTAGS: []\n  play #1 (all): x\tTAGS: [p]\n"
    )
    assert parse_listed_tags(listing) == {"a", "b"}


def test_shipped_playbooks_are_listed(repo_root):
    names = list_playbook_names(repo_root)
    assert names == sorted(names)
    assert {"application", "burn_in", "commission", "configure", "drivers", "site"} <= {*names}


@pytest.mark.parametrize(
    ("files", "config", "folder", "playbook"),
    [
        ([], planning.SHIPPED_PLAYBOOKS / "ansible.cfg", ".", "gpufleet.fleet.site"),
        (["ansible.cfg"], "ansible.cfg", ".", "gpufleet.fleet.site"),
        (["ansible.cfg", "playbooks/site.yml"], "ansible.cfg", "playbooks", "site.yml"),
        (
            ["playbooks/ansible.cfg", "playbooks/web.yml"],
            "playbooks/ansible.cfg",
            "playbooks",
            "gpufleet.fleet.site",
        ),
    ],
)
def test_own_playbooks_and_settings_come_before_those_of_the_collection(
    tmp_path, files, config, folder, playbook
):
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    assert find_ansible_config(tmp_path) == tmp_path / config
    assert find_ansible_folder(tmp_path) == tmp_path / folder
    assert find_playbook(tmp_path, "site") == playbook
    own_names = {Path(file).stem for file in files if file.endswith(".yml")}
    assert set(list_playbook_names(tmp_path)) == own_names | {
        path.stem for path in planning.SHIPPED_PLAYBOOKS.glob("*.yml")
    }


def test_missing_ansible_is_an_environment_fault(project):
    with pytest.raises(EnvironmentFault, match="ansible-none is not installed"):
        run_ansible_command(project, ["ansible-none"])


def test_slow_inventory_is_an_environment_fault(project, monkeypatch):
    monkeypatch.setattr(planning, "LIST_TIMEOUT_SECONDS", 0.01)
    with pytest.raises(EnvironmentFault, match=r"took over 0\.01 s"):
        run_ansible_command(project, ["ansible-playbook", "--version"])


def test_unparsable_inventory_stops_the_run(project):
    (project / "inventory" / "blades-1.yaml").write_text("plugin: gpufleet.fleet.rack\nnodess: 1\n")
    with pytest.raises(InputError, match="inventory"):
        plan_playbook_run(project)


def test_first_error_of_an_unparsable_inventory_is_reported(project):
    (project / "inventory" / "blades-1.yaml").write_text("plugin: gpufleet.fleet.rack\nnodess: 1\n")
    with pytest.raises(InputError) as excinfo:
        plan_playbook_run(project)
    assert "unknown key 'nodess'" in str(excinfo.value)
    assert "blades-1.yaml:2" in str(excinfo.value)
