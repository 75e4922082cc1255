"""Test a rolling play from end to end: it stops in its second batch, and ``--resume`` takes exactly the other hosts."""

from __future__ import annotations

import json
import sys

import pytest

# The shape of playbooks/upgrade_os.yml: one play groups the hosts, the next one goes through them in batches.
ROLLING = """
- name: Select hosts
  hosts: all
  gather_facts: false
  tasks:
    - name: Group hosts that may be restarted
      ansible.builtin.group_by: {key: upgrade_allowed}
      changed_when: false
- name: Upgrade in batches
  hosts: upgrade_allowed
  gather_facts: false
  connection: local
  order: sorted
  serial: 1
  max_fail_percentage: 0
  vars: {ansible_python_interpreter: PYTHON}
  tasks:
    - name: Upgrade or keep
      block:
        - name: Upgrade
          ansible.builtin.command: "{{ 'false' if inventory_hostname in bad else 'true' }}"
          changed_when: false
      rescue:
        - name: Return
          ansible.builtin.command: "true"
          changed_when: false
        - name: Fail
          ansible.builtin.fail: {msg: no headers for its kernel}
"""


@pytest.fixture
def configure(rack_project, repo_root, gpufleet):
    """Run ``gpufleet configure`` on the play; return the exit code, the hosts' statuses and the run's record."""
    playbooks = rack_project / "playbooks"
    playbooks.mkdir()
    (playbooks / "roll.yml").write_text(ROLLING.replace("PYTHON", sys.executable))
    (playbooks / "ansible.cfg").write_text((repo_root / "playbooks/ansible.cfg").read_text())

    def run(*arguments):
        result = gpufleet("configure", *arguments, "--json", cwd=rack_project)
        assert result.stdout, result.stderr
        data = json.loads(result.stdout)
        record = rack_project / ".gpufleet/artifacts" / data["run"] / "run.json"
        statuses = {host["name"]: host["status"] for host in data["hosts"]}
        return result.returncode, statuses, json.loads(record.read_text())["done"]

    return run


@pytest.mark.parametrize("is_ours", [True, False], ids=["our ansible.cfg", "another ansible.cfg"])
def test_only_hosts_of_successful_batches_are_done_and_resume_takes_the_others(
    configure, rack_project, is_ours
):
    if not is_ours:
        (rack_project / "playbooks/ansible.cfg").write_text("[defaults]\n")
    code, statuses, done = configure("--play", "roll", "--limit", "blade[01-04]", "-e", 'bad=["blade02"]')
    assert statuses == {
        "blade01": "ok",
        "blade02": "failed",
        "blade03": "not_reached",
        "blade04": "not_reached",
    }
    assert (code, done) == (1, ["blade01"])
    code, statuses, done = configure("--resume", "-e", "bad=[]")
    assert statuses == {"blade02": "ok", "blade03": "ok", "blade04": "ok"}
    assert (code, done) == (0, ["blade02", "blade03", "blade04"])


def test_lines_name_the_hosts_that_were_not_reached(configure, gpufleet, rack_project):
    arguments = ("--play", "roll", "--limit", "blade[01-03]", "-e", 'bad=["blade01"]')
    result = gpufleet("configure", *arguments, cwd=rack_project)
    reason = "not reached: no task ran on this host in the play: Upgrade in batches; next: gpufleet configure --resume"
    lines = [line for line in result.stdout.splitlines() if "blade[02-03]" in line]
    assert len(lines) == 1
    assert reason in lines[0]
