"""Test runs on a real Receptor mesh with TLS and signed work: a controller and two nodes on this machine.

The hosts are reached by Ansible's local connection; with booted hosts: tests/hosts/test_sharded.py.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpufleet import remote
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.remote.shards import mesh_control
from receptor_mesh import ReceptorMesh, find_receptor

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not find_receptor(), reason="needs Linux and the receptor program on PATH"
)

SECRET = "Sesame-4711"
PLACES = {"h1": "rack-7", "h2": "rack-7", "h3": "rack-8"}
PLAY = """
- name: Leave a mark
  hosts: all
  gather_facts: false
  tasks:
    - name: Look for the secret in all command lines
      ansible.builtin.shell: grep -la 'Sesame[-]4711' /proc/[0-9]*/cmdline
      register: found
      changed_when: false
      failed_when: found.rc == 0
    - name: Wait where it is asked for
      ansible.builtin.shell: echo $$ > {{ marks }}/{{ inventory_hostname }}.waits; sleep {{ wait | default(600) }}
      changed_when: false
      when: inventory_hostname in (waiting | default([]))
    - name: Run other people's roles
      ansible.builtin.include_role:
        name: "{{ item }}"
      loop: [others_role, me.things.others_role]
    - name: Use the secret
      ansible.builtin.copy:
        content: "{{ secret | hash('sha256') }}"
        dest: "{{ marks }}/{{ inventory_hostname }}"
        mode: "0600"
"""
OTHERS_TASK = """
- name: Leave a mark of the role
  ansible.builtin.file:
    path: "{{ marks }}/{{ inventory_hostname }}.{{ ansible_role_name }}"
    state: touch
    mode: "0600"
"""
# The run in a process of its own, to interrupt or kill it.
PROGRAM = """
import json, sys
from pathlib import Path
from gpufleet import remote
root, mesh, variables = Path(sys.argv[1]), sys.argv[2], json.loads(sys.stdin.read())
lost_after_s = variables.pop("lost_after_s", 60)
options = remote.ShardingOptions(mesh, ("rack-7", "rack-8"), lost_after_s=lost_after_s)
run = remote.run_sharded(remote.plan_playbook_run(root, "mark", "all"), options, extra_vars=variables)
print(json.dumps([run.exit_code, list(run.errors), {host.name: [host.status, host.reason] for host in run.hosts}]))
"""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    removed_lines = {"unsigned": "    verifysignature: true\n", "open": "    tls: tlsserver\n"}
    names = ("rack-7", "rack-8", *removed_lines)
    mesh = ReceptorMesh(tmp_path_factory.mktemp("mesh") / "etc", names, removed_lines=removed_lines)
    try:
        mesh.up()
        yield mesh
    finally:
        mesh.down()


@pytest.fixture
def root(tmp_path, repo_root, monkeypatch):
    """Return a project with three hosts in two racks; marks go to its folder `marks`."""
    root = tmp_path / "project"
    for name in ("playbooks", "inventory/host_vars", "marks"):
        (root / name).mkdir(parents=True)
    (root / "playbooks/mark.yml").write_text(PLAY)
    for name in ("roles", "collections/ansible_collections/me/things/roles"):
        (root / "galaxy" / name / "others_role/tasks").mkdir(parents=True)
        (root / "galaxy" / name / "others_role/tasks/main.yml").write_text(OTHERS_TASK)
    shutil.copy(repo_root / "playbooks/ansible.cfg", root / "playbooks")
    (root / "inventory/hosts.yml").write_text(json.dumps({"all": {"hosts": {key: {} for key in PLACES}}}))
    for host, rack in PLACES.items():
        variables = {
            "ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3",
            "gpufleet_rack": rack, "marks": str(root / "marks"),
        }  # fmt: skip
        (root / "inventory/host_vars" / f"{host}.json").write_text(json.dumps(variables))
    monkeypatch.setenv("GPUFLEET_HOME", str(root / ".gpufleet"))
    monkeypatch.delenv("ANSIBLE_PRIVATE_KEY_FILE", raising=False)
    return root


def read_marks(root):
    return {path.name: path.read_text() for path in (root / "marks").iterdir() if "." not in path.name}


def start_run(root, mesh, variables):
    """Start a run in a process of its own; wait until the hosts in `waiting` wait."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(root), str(mesh.control_socket)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdin.write(json.dumps(variables))
    process.stdin.close()
    wait_until(lambda: all((root / f"marks/{host}.waits").is_file() for host in variables["waiting"]))
    return process


def wait_until(true, seconds=120):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "did not come"
        time.sleep(0.1)


def remains_of_runs(mesh):
    """Return units, folders and processes that a run left on the mesh."""
    processes = [len(mesh.marked_processes(name)) - 1 for name in mesh.nodes if name in mesh.processes]
    folders = [path.name for path in Path("/dev/shm").glob("gpufleet-*-rack-[78]")]
    return mesh.units(), folders, sum(processes)


def test_run_on_two_nodes_ends_as_a_local_run_does(mesh, root, capsys):
    plan = remote.plan_playbook_run(root, "mark", "all")
    variables = {"secret": SECRET}
    local = remote.run_playbook(plan, extra_vars=variables)
    marks = read_marks(root)
    shutil.rmtree(root / "marks")
    (root / "marks").mkdir()
    capsys.readouterr()
    options = remote.ShardingOptions(str(mesh.control_socket), ("rack-7", "rack-9", "rack-8"))
    finished = []
    run = remote.run_sharded(plan, options, extra_vars=variables, on_host_finished=finished.append)
    assert (run.exit_code, run.errors) == (0, ())
    assert [vars(host) for host in run.hosts] == [vars(host) for host in local.hosts]
    assert sorted(finished) == ["h1", "h2", "h3"]
    assert read_marks(root) == marks
    roles = {path.name for path in (root / "marks").glob("h3.*")}
    assert roles == {"h3.others_role", "h3.me.things.others_role"}
    shown = capsys.readouterr().err
    for line in ("mesh node rack-7: rack-7 (2 hosts)", "mesh node rack-8: rack-8 (1 hosts)",
                 "mesh node rack-9: not reachable in the mesh: left out"):  # fmt: skip
        assert line in shown
    wait_until(lambda: remains_of_runs(mesh) == ({}, [], 0))
    files = [
        path for top in (run.artifacts, mesh.folder, mesh.memory) for path in top.rglob("*") if path.is_file()
    ]
    assert any(path.parent.name == "job_events" for path in files)
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_work_is_left_after_an_interrupt_or_a_kill(mesh, root, number):
    run = start_run(root, mesh, {"secret": SECRET, "waiting": ["h2", "h3"]})
    assert len(mesh.units()) == 2
    for node, host in (("rack-7", "h2"), ("rack-8", "h3")):
        assert int((root / f"marks/{host}.waits").read_text()) in mesh.marked_processes(node)
    sent = list(Path("/dev/shm").glob(f"gpufleet-send-*.{run.pid}.*"))
    assert len(sent) == 1
    os.kill(run.pid, number)
    out, err = run.stdout.read(), run.stderr.read()
    if number == signal.SIGINT:
        assert (run.wait(), json.loads(out)[0]) == (0, 130), err
    wait_until(lambda: remains_of_runs(mesh) == ({}, [], 0), 60)
    assert not sent[0].exists()
    assert read_marks(root) == {}


def test_lost_node_fails_its_shard_and_the_rest_finishes(mesh, root):
    run = start_run(root, mesh, {"secret": SECRET, "waiting": ["h3"], "lost_after_s": 3})
    mesh.kill("rack-8")
    out, err = run.communicate(timeout=120) if run.stdin is None else (run.stdout.read(), run.stderr.read())
    code, errors, hosts = json.loads(out)
    assert code == 3, err
    assert errors == ["shard rack-8: mesh node rack-8: lost: no route to the node for 3 s"]
    assert {name: status for name, (status, _) in hosts.items() if name != "h3"} == {"h1": "ok", "h2": "ok"}
    assert hosts["h3"][1] == "not done: mesh node rack-8: lost: no route to the node for 3 s"
    assert sorted(read_marks(root)) == ["h1", "h2"]
    # The node is back: Receptor deletes what it has of the unit.
    mesh.start("rack-8")
    mesh.wait_for_routes(["rack-8"])
    wait_until(lambda: mesh.units() == {})
    for folder in Path("/dev/shm").glob("gpufleet-*-rack-8"):
        shutil.rmtree(folder)  # a power cut would have emptied the memory


def test_run_continues_after_a_nodes_receptor_restarted(mesh, root):
    """The work goes on without its receptor, whose output is read when the node is back."""
    run = start_run(root, mesh, {"secret": SECRET, "waiting": ["h3"], "wait": 5})
    receptor = mesh.processes.pop("rack-8")
    receptor.kill()
    receptor.wait()
    mesh.start("rack-8")
    out, err = run.stdout.read(), run.stderr.read()
    assert json.loads(out) == [0, [], {host: ["ok", ""] for host in PLACES}], err
    assert sorted(read_marks(root)) == ["h1", "h2", "h3"]
    wait_until(lambda: remains_of_runs(mesh) == ({}, [], 0))


def test_mesh_that_cannot_be_used_is_refused(mesh, root, tmp_path):
    plan = remote.plan_playbook_run(root, "mark", "all")
    with pytest.raises(InputError, match="is not a socket"):
        remote.run_sharded(plan, remote.ShardingOptions(str(tmp_path / "none"), ("rack-7",)))
    with pytest.raises(InputError, match="names no mesh node"):
        remote.run_sharded(plan, remote.ShardingOptions(str(mesh.control_socket), (" ", "")))
    with pytest.raises(
        EnvironmentFault, match="the mesh reaches: controller, open, rack-7, rack-8, unsigned"
    ):
        remote.run_sharded(plan, remote.ShardingOptions(str(mesh.control_socket), ("rack-9",)))


def test_control_service_that_does_not_answer_is_reported(mesh, monkeypatch):
    monkeypatch.setattr(mesh_control, "ANSWER_SECONDS", 1.0)
    controller = mesh.processes["controller"].pid
    os.kill(controller, signal.SIGSTOP)
    try:
        with pytest.raises(EnvironmentFault, match=r"control\.sock: timed out"):
            mesh_control.open_mesh_control(str(mesh.control_socket)).list_reachable_nodes()
    finally:
        os.kill(controller, signal.SIGCONT)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("unsigned", "work type did not expect a signature"),
        ("open", "certificate signed by unknown authority"),
    ],
)
def test_node_without_signatures_or_tls_gets_no_work(mesh, root, node, reason):
    plan = remote.plan_playbook_run(root, "mark", "h1")
    run = remote.run_sharded(plan, remote.ShardingOptions(str(mesh.control_socket), (node,)))
    assert run.exit_code == 3
    assert len(run.errors) == 1
    assert reason in run.errors[0]
    assert read_marks(root) == {}
    wait_until(lambda: mesh.units() == {})
