"""Test sharded runs with two blades as workers over SSH."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SECRET = "Sesame-4711"
BLADES = [f"poc-blade0{slot}" for slot in range(1, 5)]
WORKERS = ("--workers", "poc-blade01,poc-blade02", "--shard-size", "2")
# Shard 2 waits on purpose, so that its worker can be lost while shard 1 succeeds.
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
    box = make_box(tmp_path_factory.mktemp("workers") / "home", slots=4)
    env = box.rehearsal_environment(clean_env)
    try:
        box.up()
        sharded_rack = Rack(box, project, gpufleet, env)
        synced = gpufleet("nodes", "sync", "-s", "poc", cwd=project, env=env)
        assert synced.returncode == 0, synced.stderr
        yield sharded_rack
    finally:
        box.down()


@pytest.fixture(scope="module")
def first_run(rack):
    """Run it once on all four, by two workers, with a secret."""
    result = rack.configure("--limit", "new_blades", *WORKERS, "-e", f"secret={SECRET}", "--json")
    assert result.returncode == 0, result.stderr
    return result


def test_two_workers_run_half_of_the_rack_each(rack, first_run):
    assert "worker poc-blade01: blades-poc.1 (2 hosts)" in first_run.stderr
    assert "worker poc-blade02: blades-poc.2 (2 hosts)" in first_run.stderr
    assert {host["name"]: host["status"] for host in json.loads(first_run.stdout)["hosts"]} == dict.fromkeys(
        BLADES, "ok"
    )
    marks = {rack.run_on(slot, "cat /root/mark") for slot in range(1, 5)}
    assert len(marks) == 1
    assert len(marks.pop()) == 64


@pytest.mark.usefixtures("first_run")
def test_each_worker_connects_to_its_own_shard(rack):
    """sshd on blade 4 was spoken to by blade 2, which ran its shard, and not by this machine for the play."""
    log = rack.run_on(4, "journalctl -u ssh --no-pager -o cat")
    assert f"from {rack.box.address('blades-poc/2')}" in log
    assert f"from {rack.box.address('blades-poc/1')}" not in log


@pytest.mark.usefixtures("first_run")
def test_registry_has_the_results_of_all_workers(rack):
    nodes = json.loads(rack.gpufleet("nodes", "list", "--json", cwd=rack.project, env=rack.env).stdout)
    states = {
        node["name"]: (node["state"], node["reachable"]) for node in nodes if node["rack"] == "blades-poc"
    }
    assert states == dict.fromkeys(BLADES, ("commissioning", True))


@pytest.mark.usefixtures("first_run")
def test_event_files_of_a_worker_are_few_and_small(rack):
    events = list(rack.newest().glob("*/job_events/*.json"))
    assert 8 <= len(events) <= 40
    assert sum(path.stat().st_size for path in events) < 100_000
    results = [json.loads(path.read_text())["event_data"].get("res") or {} for path in events]
    assert not any("invocation" in result for result in results)
    assert sum("gpufleet" in result for result in results) == 4


@pytest.mark.usefixtures("first_run")
def test_secret_is_stored_nowhere(rack):
    for file in (path for path in rack.box.home.rglob("*") if path.is_file() and "rack" not in path.parts):
        assert SECRET.encode() not in file.read_bytes(), file
    for slot in (1, 2):
        matches = rack.run_on(
            slot, f"grep -rl {SECRET} /root /run /tmp /var /etc /dev/shm 2>/dev/null || true"
        )
        assert matches == ""


@pytest.mark.usefixtures("first_run")
def test_no_process_or_file_remains_on_a_worker(rack):
    for slot in (1, 2):
        assert rack.run_on(slot, "ls /dev/shm") == ""
        assert rack.run_on(slot, "pgrep -fa 'ansible|ssh-agent' | grep -v pgrep || true") == ""


@pytest.mark.usefixtures("first_run")
def test_hosts_of_a_lost_worker_are_left_to_the_next_run(rack):
    run = rack.start("--limit", "new_blades", *WORKERS, "-e", "wait=300", "-e", f"secret={SECRET}")
    waiting_on_2 = "pgrep -f 'sleep 300' >/dev/null && echo waiting || true"
    wait_until(
        lambda: rack.run_on(3, waiting_on_2) == "waiting" and rack.run_on(4, waiting_on_2) == "waiting"
    )
    wait_until(lambda: {"poc-blade01", "poc-blade02"} == set(read_record(rack)["done"]))
    os.kill(connection_to(run.pid, rack.box.address("blades-poc/2")), signal.SIGKILL)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 3, err
    assert "poc-blade[03-04]" in out
    assert "not done: worker poc-blade02" in out
    assert read_record(rack)["done"] == ["poc-blade01", "poc-blade02"]
    wait_until(lambda: rack.run_on(2, "ls /dev/shm; pgrep -fa ansible | grep -v pgrep || true") == "")
    check_resume(rack)


def check_resume(rack):
    """A resumed run does only the rest; extra variables must be given again because they are not stored."""
    resumed = rack.configure("--resume", *WORKERS)
    assert resumed.returncode == 2
    assert resumed.stderr.strip() == (
        "error: --resume: gpufleet does not store the values of extra variables; "
        "give them again: -e secret=... -e wait=..."
    )
    result = rack.configure("--resume", *WORKERS, "-e", "wait=0", "-e", f"secret={SECRET}", "--json")
    assert result.returncode == 0, result.stderr
    assert [host["name"] for host in json.loads(result.stdout)["hosts"]] == ["poc-blade03", "poc-blade04"]
    again = rack.configure("--resume", "-e", "wait=0", "-e", "secret=x")
    assert (again.returncode, again.stdout.strip()) == (0, "every host of that run is done: nothing to do")


def test_unreachable_worker_is_excluded(rack):
    result = rack.configure("--limit", "poc-blade03", "--workers", "poc-blade01,198.18.255.254", "--json")
    assert "worker 198.18.255.254: " in result.stderr
    assert "left out" in result.stderr
    assert [host["status"] for host in json.loads(result.stdout)["hosts"]] == ["ok"]


def read_record(rack):
    return json.loads((rack.newest() / "run.json").read_text())


def wait_until(true, seconds=240):
    """Wait for something; fail where it does not come."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "did not come"
        time.sleep(0.3)


def connection_to(pid, address):
    """Return the process of our run's SSH connection to an address."""
    sockets = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 1) for line in sockets.stdout.splitlines()]
    return next(int(number) for number, command in rows if address in command and "worker.py" in command)
