"""Test `--limit` end to end: real ansible-runner runs touch exactly the hosts that a pattern means."""

from __future__ import annotations

import json

import pytest
import yaml

from gpufleet.errors import CheckFailed, InputError
from gpufleet.remote.plan import plan_playbook_run

BLADES = [f"blade{number:02}" for number in range(1, 6)]
GROUPS = {
    "new_blades": BLADES,
    "rack_r1": BLADES[:2],
    "bench": ["bench1"],
    "empty": [],
    "blade09": ["bench1"],
}
PLAYBOOK = """
- name: Mark
  hosts: all
  gather_facts: false
  tasks:
    - name: Touch the host
      ansible.builtin.copy:
        content: ""
        dest: "{{ playbook_dir }}/touched/{{ inventory_hostname }}"
        mode: "600"
"""


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """Give a project with a play that leaves a file for each host; all hosts are this machine."""
    (tmp_path / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
    (tmp_path / "playbooks/touched").mkdir(parents=True)
    (tmp_path / "playbooks/mark.yml").write_text(PLAYBOOK)
    # Warnings of unknown names are switched off, as an operator may have done.
    settings = "[defaults]\nlocalhost_warning = False\n[inventory]\nhost_pattern_mismatch = ignore\n"
    (tmp_path / "playbooks/ansible.cfg").write_text(settings)
    variables = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    groups = {name: {"hosts": dict.fromkeys(names)} for name, names in GROUPS.items()}
    inventory = {"all": {"hosts": dict.fromkeys(["blade09"]), "vars": variables, "children": groups}}
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/hosts.yml").write_text(yaml.safe_dump(inventory))
    monkeypatch.setenv("GPUFLEET_HOME", str(tmp_path / "home"))
    return tmp_path


def list_touched_hosts(fleet):
    return sorted(path.name for path in (fleet / "playbooks/touched").iterdir())


@pytest.mark.parametrize(
    ("limit", "hosts"),
    [
        ("blade[01-03]:!blade02", ["blade01", "blade03"]),
        ("new_blades:&blade[01-03]", ["blade01", "blade02", "blade03"]),
        ("new_blades:!blade[01-02,04]", ["blade03", "blade05"]),
        ("new_blades[0]", ["blade01"]),
        ("new_blades[1:2],bench", ["bench1", "blade02", "blade03"]),
        (r"~blade0[1-3]\Z", ["blade01", "blade02", "blade03"]),
    ],
)
def test_run_touches_exactly_the_hosts_that_were_named(gpufleet, fleet, limit, hosts):
    result = gpufleet("configure", "--play", "mark", "--limit", limit, "--json", cwd=fleet)
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert list_touched_hosts(fleet) == hosts
    assert (summary["limit"], sorted(host["name"] for host in summary["hosts"])) == (limit, hosts)


@pytest.mark.parametrize(
    ("limit", "code", "line"),
    [
        ("", 2, "error: --limit: names no host; name hosts or groups; all means every host"),
        ("blade01,nosuch[0]", 2, "error: --limit: no host or group 'nosuch'; "),
        ("blade[01-07]", 2, "error: --limit: no host or group blade[06-07]; did you mean blade0"),
        ("new_blades:!blade[04-06]", 2, "error: --limit: no host or group blade06; did you mean blade0"),
        ("new_blades[0-1]", 2, "error: --limit: no host or group new_blades[0-1]; did you mean new_blades"),
        ("blade01,localhost", 2, "error: --limit: no host or group 'localhost'; "),
        ("new_blades:!blade[01-05]", 1, "error: --limit: new_blades:!blade[01-05] leaves no host"),
        ("bench:&blade01", 1, "error: --limit: bench:&blade01 leaves no host"),
        ("new_blades[7:9]", 1, "error: --limit: new_blades[7:9] leaves no host"),
    ],
)
def test_limit_that_selects_no_named_host_touches_none(gpufleet, fleet, limit, code, line):
    result = gpufleet("configure", "--play", "mark", "--limit", limit, cwd=fleet)
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.startswith(line)
    assert list_touched_hosts(fleet) == []


@pytest.mark.parametrize("limit", ["empty", "empty:!blade01", "empty[0]", "empty:&blade[01-02]"])
def test_empty_group_is_an_empty_answer(fleet, limit):
    assert plan_playbook_run(fleet, "mark", limit).hosts == ()


def test_name_of_a_host_and_of_a_group_is_not_part_of_a_range(fleet):
    with pytest.raises(InputError, match="--limit: blade09 is a host and a group; rename one of them"):
        plan_playbook_run(fleet, "mark", "blade[05-05,09]")


def test_operators_that_leave_no_host_are_a_negative_answer(fleet):
    with pytest.raises(CheckFailed) as excinfo:
        plan_playbook_run(fleet, "mark", "!new_blades:!bench:!~blade09")
    assert (excinfo.value.exit_code, excinfo.value.hint) == (
        1,
        "its operators or subscripts leave out every host that it names",
    )
