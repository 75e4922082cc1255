"""Test that an interrupted or killed run leaves no process on the controller or on the host."""

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

from gpufleet import burnin

HANG_SECONDS = 180
AGENT = b"agent.pyz\0"
PLAY = """
- name: Burn in for long
  hosts: all
  gather_facts: false
  tasks:
    - name: Copy the agent
      ansible.builtin.copy: {src: "{{ agent }}", dest: /run/agent.pyz, mode: "0755"}
    - name: Measure the second blade
      gpufleet.fleet.burn_in:
        node: "{{ inventory_hostname }}"
        agent: /run/agent.pyz
        attempt: "{{ attempt }}"
        only: [cpu]
        params: {cpu_seconds: "{{ seconds }}", rehearsal: true}
      when: inventory_hostname == 'poc-blade02'
"""


def wait_until(condition, what):
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.2)


def find_marked_processes(mark):
    process_ids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and mark in (folder / "environ").read_bytes():
                process_ids.append((folder / "cmdline").read_bytes())
        except OSError:
            continue
    return process_ids


def find_command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def rack(tmp_path_factory, shared_project, gpufleet, clean_env, make_box):
    folder = tmp_path_factory.mktemp("interrupts")
    project = folder / "project"
    shutil.copytree(shared_project, project, symlinks=True, ignore=shutil.ignore_patterns(".gpufleet"))
    (project / "playbooks" / "long.yml").write_text(PLAY)
    box = make_box(folder / "home", slots=2)
    env = box.rehearsal_environment(clean_env)
    burnin.build_agent_zipapp(project / "agent.pyz")
    try:
        box.up()
        synced = gpufleet("nodes", "sync", "-s", "poc", cwd=project, env=env)
        assert synced.returncode == 0, synced.stderr
        yield box, project, env
    finally:
        box.down()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)]
)
def test_interrupted_run_stops_on_the_controller_and_on_the_host(rack, gpufleet, number, code):
    box, project, env = rack
    mark = f"GPUFLEET_TEST_MARK=interrupt-{os.getpid()}-{int(number)}"
    arguments = ["configure", "--play", "long", "--limit", "poc-blade01,poc-blade02", "--json"]
    # A separate attempt: the agent measures nothing twice in one attempt.
    variables = ["-e", f"agent={project}/agent.pyz", "-e", f"attempt=interrupt-{int(number)}"]
    run = subprocess.Popen(
        [sys.executable, "-m", "gpufleet", *arguments, *variables, "-e", "seconds=900"], cwd=project,
        env=env | dict([mark.split("=")]), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip

    def agents():
        """Return the agents on the hosts, seen from outside: a look by SSH several times a second costs a processor."""
        return [pid for pid in box.process_ids_inside() if AGENT in find_command_line(pid[0])]

    wait_until(agents, "the agent on the host")
    record = max((box.home / "artifacts").glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    wait_until(lambda: json.loads(record.read_text())["done"] == ["poc-blade01"], "the first host")
    run.send_signal(number)
    assert run.wait(HANG_SECONDS) == code
    run.stdout.close()
    wait_until(lambda: not find_marked_processes(mark.encode()), "the processes here to end")
    wait_until(lambda: not agents(), "the agent on the host to end")
    assert json.loads(record.read_text())["done"] == ["poc-blade01"]
    resumed = gpufleet(
        "configure", "--resume", *variables, "-e", "seconds=0.1", "--json", cwd=project, env=env, timeout=600
    )
    assert [(host["name"], host["status"]) for host in json.loads(resumed.stdout)["hosts"]] == [
        ("poc-blade02", "ok")
    ]
