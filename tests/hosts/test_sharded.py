"""Test sharded runs of booted hosts on a real Receptor mesh: a controller and two nodes, TLS, signed work.

What a run leaves on a mesh after an interrupt or a kill is in tests/remote/test_mesh.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from receptor_mesh import ReceptorMesh, find_receptor

pytestmark = pytest.mark.skipif(not find_receptor(), reason="needs the receptor program on PATH")

# Another than that of the tests in tests/remote, which look for theirs in all command lines while these run beside.
SECRET = "Kitezh-4713"
BLADES = [f"poc-blade0{slot}" for slot in range(1, 5)]
NODES = ("mesh-1", "mesh-2")
# Blades 3 and 4 wait on purpose, so that their node can be lost while the other shard succeeds.
PLAY = """
- name: Leave a mark
  hosts: all
  gather_facts: false
  tasks:
    - name: Identify the node
      gpufleet.fleet.probe:
        node: "{{ inventory_hostname }}"
        attempt: "{{ inventory_hostname }}-1"
    - name: Wait where it is asked for
      ansible.builtin.command: sleep {{ wait | default(0) }}
      changed_when: false
      when: inventory_hostname in ['poc-blade03', 'poc-blade04']
    - name: Use the secret
      ansible.builtin.copy:
        content: "{{ (secret | default('none')) | hash('sha256') }}"
        dest: /root/mark
        mode: "0600"
      no_log: true
"""


@dataclass
class Rack:
    """Four booted blades and a project whose playbook leaves a mark on them."""

    box: Any
    project: Path
    gpufleet: Any
    env: dict[str, str]
    mesh: ReceptorMesh

    @property
    def on_mesh(self):
        """Return the options of a run on both nodes, two hosts a shard."""
        socket = str(self.mesh.control_socket)
        return ("--mesh", socket, "--mesh-nodes", ",".join(NODES), "--shard-size", "2")

    def configure(self, *options):
        play = () if "--resume" in options else ("--play", "mark")  # a resumed run keeps its play
        return self.gpufleet("configure", *play, *options, cwd=self.project, env=self.env)

    def start(self, *options):
        """Start a run without waiting for it."""
        command = [sys.executable, "-m", "gpufleet", "configure", "--play", "mark", *options]
        return subprocess.Popen(
            command, cwd=self.project, env=os.environ | self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def newest(self):
        """Return the newest run's folder."""
        return max((self.box.home / "artifacts").iterdir(), key=lambda path: path.stat().st_mtime)

    def run_on(self, slot, command):
        return self.box.read(f"blades-poc/{slot}", command)


@pytest.fixture(scope="module")
def rack(tmp_path_factory, shared_project, gpufleet, clean_env, make_box):
    project = tmp_path_factory.mktemp("sharded") / "project"
    shutil.copytree(shared_project, project, symlinks=True, ignore=shutil.ignore_patterns(".gpufleet"))
    (project / "playbooks" / "mark.yml").write_text(PLAY)
    box = make_box(tmp_path_factory.mktemp("sharded-home") / "home", slots=4)
    env = box.rehearsal_environment(clean_env)
    mesh = ReceptorMesh(tmp_path_factory.mktemp("mesh") / "etc", NODES)
    try:
        mesh.up()
        box.up()
        sharded_rack = Rack(box, project, gpufleet, env, mesh)
        synced = gpufleet("nodes", "sync", "-s", "poc", cwd=project, env=env)
        assert synced.returncode == 0, synced.stderr
        yield sharded_rack
    finally:
        mesh.down()
        box.down()


@pytest.fixture(scope="module")
def first_run(rack):
    """Run it once on all four, by two nodes, with a secret."""
    result = rack.configure("--limit", "new_blades", *rack.on_mesh, "-e", f"secret={SECRET}", "--json")
    assert result.returncode == 0, result.stderr
    return result


def test_two_nodes_run_half_of_the_rack_each(rack, first_run):
    lines = [line for line in first_run.stderr.splitlines() if line.startswith("mesh node ")]
    assert sorted(line.split(": ")[0] for line in lines) == ["mesh node mesh-1", "mesh node mesh-2"]
    assert sorted(line.split(": ")[1] for line in lines) == [
        "blades-poc.1 (2 hosts)",
        "blades-poc.2 (2 hosts)",
    ]
    assert {host["name"]: host["status"] for host in json.loads(first_run.stdout)["hosts"]} == dict.fromkeys(
        BLADES, "ok"
    )
    marks = {rack.run_on(slot, "cat /root/mark") for slot in range(1, 5)}
    assert len(marks) == 1
    assert len(marks.pop()) == 64


@pytest.mark.usefixtures("first_run")
def test_registry_has_the_results_of_all_nodes(rack):
    nodes = json.loads(rack.gpufleet("nodes", "list", "--json", cwd=rack.project, env=rack.env).stdout)
    states = {
        node["name"]: (node["state"], node["reachable"]) for node in nodes if node["rack"] == "blades-poc"
    }
    assert states == dict.fromkeys(BLADES, ("commissioning", True))


@pytest.mark.usefixtures("first_run")
def test_event_files_of_a_node_are_few_and_small(rack):
    events = list(rack.newest().glob("*/job_events/*.json"))
    assert 8 <= len(events) <= 40
    assert sum(path.stat().st_size for path in events) < 100_000
    results = [json.loads(path.read_text())["event_data"].get("res") or {} for path in events]
    assert not any("invocation" in result for result in results)
    assert sum("gpufleet" in result for result in results) == 4


@pytest.mark.usefixtures("first_run")
def test_no_secret_or_key_is_stored_anywhere(rack):
    key = (rack.box.home / "ssh" / "id_ed25519").read_bytes().splitlines()[1]
    stored = [path for path in rack.box.home.rglob("*") if path.is_file() and "rack" not in path.parts]
    on_mesh = [
        path for top in (rack.mesh.folder, rack.mesh.memory) for path in top.rglob("*") if path.is_file()
    ]
    for file in (*stored, *on_mesh):
        content = file.read_bytes()
        assert SECRET.encode() not in content, file
        assert key not in content or file.name == "id_ed25519", file


@pytest.mark.usefixtures("first_run")
def test_no_unit_folder_or_process_remains(rack):
    assert rack.mesh.units() == {}
    run = rack.newest().name
    assert list(Path("/dev/shm").glob(f"gpufleet-{run}-*")) == []
    # receptor itself; the runner of the last command ends in its own time
    wait_until(lambda: [len(rack.mesh.marked_processes(node)) for node in NODES] == [1, 1])


@pytest.mark.usefixtures("first_run")
def test_hosts_of_a_lost_node_are_left_to_the_next_run(rack):
    options = ("--lost-after", "3", "-e", "wait=300", "-e", f"secret={SECRET}")
    run = rack.start("--limit", "new_blades", *rack.on_mesh, *options)
    waiting = "pgrep -f 'sleep 30[0]' >/dev/null && echo waiting || true"
    wait_until(lambda: rack.run_on(3, waiting) == "waiting" and rack.run_on(4, waiting) == "waiting")
    wait_until(lambda: {"poc-blade01", "poc-blade02"} == set(read_record(rack)["done"]))
    wait_until(lambda: len(rack.mesh.units()) == 1)  # the other shard's unit is released
    (unit,) = rack.mesh.units().values()
    lost = unit["ExtraData"]["RemoteNode"]
    rack.mesh.kill(lost)
    out, err = run.communicate(timeout=600)
    assert run.returncode == 3, err
    assert "poc-blade[03-04]" in out
    assert f"not done: mesh node {lost}: lost: no route to the node for 3 s" in out
    assert read_record(rack)["done"] == ["poc-blade01", "poc-blade02"]
    lost_run = rack.newest().name
    check_resume(rack, lost)
    for folder in Path("/dev/shm").glob(f"gpufleet-{lost_run}-*"):
        shutil.rmtree(folder)  # a real power cut would have emptied the node's memory


def check_resume(rack, lost):
    """A resumed run does only the rest, on the node that is left; extra variables must be given again."""
    resumed = rack.configure("--resume", *rack.on_mesh)
    assert resumed.returncode == 2
    assert resumed.stderr.strip() == (
        "error: --resume: gpufleet does not store the values of extra variables; "
        "give them again: -e secret=... -e wait=..."
    )
    again = ("-e", "wait=0", "-e", f"secret={SECRET}")
    result = rack.configure("--resume", *rack.on_mesh, *again, "--json")
    assert result.returncode == 0, result.stderr
    assert f"mesh node {lost}: not reachable in the mesh: left out" in result.stderr
    assert [host["name"] for host in json.loads(result.stdout)["hosts"]] == ["poc-blade03", "poc-blade04"]
    again = rack.configure("--resume", "-e", "wait=0", "-e", "secret=x")
    assert (again.returncode, again.stdout.strip()) == (0, "every host of that run is done: nothing to do")


def read_record(rack):
    return json.loads((rack.newest() / "run.json").read_text())


def wait_until(true, seconds=240):
    """Wait for something; fail where it does not come."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "did not come"
        time.sleep(0.3)
