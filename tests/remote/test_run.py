"""Test real ansible-runner runs of a small local project: outcome, artifacts, interrupts."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import threading
import time

import pytest

from gpufleet.remote.plan import plan_playbook_run
from gpufleet.remote.progress import HostProgress
from gpufleet.remote.run import (
    RunOutcome,
    is_event_to_store,
    remove_environment_from_command_file,
    run_playbook,
)
from gpufleet.remote.task_selection import parse_task_selection

PLAYBOOK = """
- name: Try
  hosts: all
  gather_facts: false
  tasks:
    - name: Say hello
      ansible.builtin.debug: {msg: "{{ greeting | default('hello') }}"}
    - name: Tell the registry
      ansible.builtin.debug: {msg: x}
    - name: Fail where asked to
      ansible.builtin.command: "{{ command | default('true') }}"
      changed_when: true
"""

ANSIBLE_CFG = "[defaults]\nlocalhost_warning = False\ncallbacks_enabled = gpufleet.fleet.play_record\n"


@pytest.fixture
def small_project(tmp_path, monkeypatch):
    """Give a project with one playbook and two hosts that are this machine."""
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks/try.yml").write_text(PLAYBOOK)
    (tmp_path / "playbooks/ansible.cfg").write_text(ANSIBLE_CFG)
    (tmp_path / "inventory").mkdir()
    hosts = (
        "[all:vars]\nansible_connection=local\nansible_python_interpreter='{{ ansible_playbook_python }}'\n"
    )
    (tmp_path / "inventory/hosts.ini").write_text(f"[pair]\na1\na2\n[none]\n{hosts}")
    monkeypatch.setenv("GPUFLEET_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("A_SECRET", "hunter2")
    return tmp_path


def outcome(tiny, limit="pair", **more):
    return run_playbook(plan_playbook_run(tiny, "try", limit), stream=io.StringIO(), **more)


def test_successful_run_exits_with_0(small_project):
    stream = io.StringIO()
    result = run_playbook(plan_playbook_run(small_project, "try", "pair"), stream=stream)
    assert (result.exit_code, result.completed, result.interrupted) == (0, True, False)
    assert [(host.name, host.status, host.changed) for host in result.hosts] == [
        ("a1", "ok", 1),
        ("a2", "ok", 1),
    ]
    # On a busy machine the two hosts' steps may be seconds apart, and are then two lines.
    expected_messages = [
        line.split()[0]
        for line in stream.getvalue().splitlines()
        if line.endswith("3/3  Fail where asked to")
    ]
    assert expected_messages in (["a[1-2]"], ["a1", "a2"], ["a2", "a1"])


def test_failed_run_exits_with_1(small_project):
    result = outcome(small_project, extra_vars={"command": "false"})
    assert (result.exit_code, result.host_names_with_status("failed")) == (1, ["a1", "a2"])
    # ansible-core 2.20 made a sentence of it.
    assert re.fullmatch("Fail where asked to: .*non-zero return code.?", result.hosts[0].reason)


def test_check_mode_is_passed_to_ansible(small_project):
    assert outcome(small_project, options="--check").hosts[0].changed == 0


def test_artifacts_are_small_and_contain_no_environment(small_project):
    result = outcome(small_project)
    kept_events = [
        json.loads(path.read_text())["event"] for path in (result.artifacts / "job_events").glob("*.json")
    ]
    assert "playbook_on_stats" in kept_events
    assert not {"runner_on_start", "runner_on_ok"} & set(kept_events)
    assert set(json.loads((result.artifacts / "command").read_text())) == {"command", "cwd"}
    assert not any(b"hunter2" in path.read_bytes() for path in result.artifacts.rglob("*") if path.is_file())


TAGGED = """
- name: Try
  hosts: all
  gather_facts: false
  tasks:
    - name: Write a file
      ansible.builtin.copy:
        content: "{{ inventory_hostname }}\\n"
        dest: "{{ playbook_dir }}/{{ item }}.out"
        mode: "600"
      loop: [one, two]
      tags: [files]
    - name: Write a secret
      ansible.builtin.copy: {content: hunter2, dest: "{{ playbook_dir }}/secret.out", mode: "600"}
      no_log: true
      tags: [files]
    - name: Fail
      ansible.builtin.command: "false"
"""


def test_selected_tasks_report_their_differences(small_project):
    (small_project / "playbooks/try.yml").write_text(TAGGED)
    selection = parse_task_selection(["files"], [])
    plan = plan_playbook_run(small_project, "try", "a1", selection)
    assert plan.tasks == ("Write a file", "Write a secret")
    options = " ".join(["--check", "--diff", *selection.arguments])
    (host,) = run_playbook(plan, stream=io.StringIO(), options=options).hosts
    assert (host.status, host.done) == ("ok", 2)
    (difference,) = host.differences
    assert difference.task == "Write a file"
    assert [line for line in difference.lines if line.startswith("+") and "after" not in line] == [
        "+a1",
        "+a1",
    ]
    assert any(line.endswith("one.out") for line in difference.lines)
    assert not list((small_project / "playbooks").glob("*.out"))


def test_run_leaves_no_file_in_the_users_env_folder(small_project):
    outcome(small_project, extra_vars={"greeting": "hi"}, options="--check")
    assert not (small_project / "env").exists()


def interrupt_once(folder, interrupts):
    """Interrupt this process as soon as the file is there: the task runs then."""
    deadline = time.monotonic() + 120
    while not folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    interrupts.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)


def test_interrupt_stops_ansible_first(small_project):
    handler = signal.getsignal(signal.SIGINT)
    interrupts = []
    threading.Thread(target=interrupt_once, args=(small_project / "begun", interrupts), daemon=True).start()
    result = outcome(small_project, extra_vars={"command": f"sh -c 'touch {small_project}/begun; sleep 600'"})
    assert (result.interrupted, result.exit_code) == (True, 130)
    assert time.monotonic() - interrupts[0] < 300
    assert signal.getsignal(signal.SIGINT) is handler


def test_playbook_that_cannot_run_is_an_environment_fault(small_project):
    plan = plan_playbook_run(small_project, "try", "pair")
    (small_project / "playbooks/try.yml").write_text("- hosts: all\n  no_such_key: 1\n")
    result = run_playbook(plan, stream=io.StringIO())
    assert (result.completed, result.exit_code) == (False, 3)


def test_empty_group_has_no_hosts(small_project):
    assert plan_playbook_run(small_project, "try", "none").hosts == ()


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["ok"], 0),
        (["ok", "unreachable"], 1),
        (["ok", "rescued"], 1),
        (["unreachable"], 1),
        (["unreachable", "unreachable"], 3),
    ],
)
def test_exit_code_follows_the_host_statuses(tmp_path, statuses, code):
    hosts = tuple(HostProgress(f"h{n}", status) for n, status in enumerate(statuses))
    assert (
        RunOutcome("x", "site", tmp_path, hosts, (), (), interrupted=False, completed=True).exit_code == code
    )


def test_events_for_the_registry_are_kept():
    def ok(**result):
        return {"event": "runner_on_ok", "event_data": {"res": result}}

    assert is_event_to_store(ok(gpufleet={"event": "burn_in"}))
    assert not is_event_to_store(ok(changed=True))
    assert is_event_to_store({"event": "runner_on_failed"})


def test_missing_command_file_is_accepted(tmp_path):
    remove_environment_from_command_file(tmp_path / "command")
    assert list(tmp_path.iterdir()) == []


STAGES = """
- name: Everybody
  hosts: all
  gather_facts: false
  tasks:
    - name: Leave word
      ansible.builtin.debug: {msg: x}
- name: Only one
  hosts: a1
  gather_facts: false
  tasks:
    - name: Fail
      ansible.builtin.fail: {msg: out of cards}
      when: not cured | default(false)
- name: Nobody today
  hosts: none
  tasks: []
"""


@pytest.mark.parametrize(("cured", "statuses"), [(False, ["failed", "stopped"]), (True, ["ok", "ok"])])
def test_hosts_that_ansible_skipped_do_not_count_as_done(small_project, cured, statuses):
    """Ansible begins no later play where all hosts of one failed; the others then count as ok in its recap."""
    (small_project / "playbooks/try.yml").write_text(STAGES)
    result = outcome(small_project, extra_vars={"cured": cured})
    assert [host.status for host in result.hosts] == statuses
    assert (result.exit_code, result.host_names_with_status("ok")) == (
        (0, ["a1", "a2"]) if cured else (1, [])
    )
    if not cured:
        assert result.hosts[1].reason == "not done: Ansible ended the run in the play: Only one"


@pytest.mark.parametrize(
    "kind", ["runner_on_start", "runner_item_on_ok", "runner_item_on_skipped", "verbose"]
)
def test_uninformative_events_are_dropped(kind):
    assert not is_event_to_store({"event": kind})


@pytest.mark.parametrize(
    "kind", ["runner_on_failed", "runner_item_on_failed", "playbook_on_stats", "warning"]
)
def test_informative_events_are_kept(kind):
    assert is_event_to_store({"event": kind})


ROLLING = """
- name: Select
  hosts: all
  gather_facts: false
  tasks:
    - name: Group hosts that may be restarted
      ansible.builtin.group_by: {key: restart_now}
      changed_when: false
- name: Restart in batches
  hosts: restart_now
  gather_facts: false
  order: sorted
  serial: 1
  max_fail_percentage: 0
  tasks:
    - name: Restart
      ansible.builtin.command: "{{ command | default('true') }}"
      changed_when: false
"""


@pytest.mark.parametrize(
    "configuration", [ANSIBLE_CFG, "[defaults]\n"], ids=["recorded", "without our ansible.cfg"]
)
def test_hosts_of_later_batches_are_not_reached(small_project, configuration):
    (small_project / "playbooks/try.yml").write_text(ROLLING)
    (small_project / "playbooks/ansible.cfg").write_text(configuration)
    finished = []
    result = outcome(small_project, extra_vars={"command": "false"}, on_host_finished=finished.append)
    assert [(host.name, host.status) for host in result.hosts] == [("a1", "failed"), ("a2", "not_reached")]
    assert result.hosts[1].reason == "not reached: no task ran on this host in the play: Restart in batches"
    assert (result.exit_code, result.completed, finished) == (1, True, [])
    assert [host.status for host in outcome(small_project).hosts] == ["ok", "ok"]


def test_run_that_ansible_calls_failed_exits_with_1(tmp_path):
    """No host has a reason: then there is one that we do not know of."""
    done = (HostProgress("a1", "ok"),)
    assert (
        RunOutcome(
            "r", "try", tmp_path, done, (), (), interrupted=False, completed=True, ansible_code=2
        ).exit_code
        == 1
    )
