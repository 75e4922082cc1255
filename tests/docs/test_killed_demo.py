"""Test that `rehearse down` removes everything of a demo that was killed while configuring."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpufleet.rehearsal import processes
from gpufleet.rehearsal.rack.plan import rehearsal_name_prefix

pytestmark = [pytest.mark.engine, pytest.mark.hosts, pytest.mark.slow]


def start_demo(root, env, log):
    if sys.platform != "linux" or os.geteuid():
        pytest.skip("a rack of booted hosts needs root on Linux")
    with log.open("w") as out:
        command = [sys.executable, "-m", "gpufleet", "rehearse", "demo", "-s", "production"]
        return subprocess.Popen(command, cwd=root, env=env, stdout=out, stderr=out)


def wait_for(log, pattern, demo, patience_s=300):
    deadline = time.monotonic() + patience_s
    while not re.search(pattern, log.read_text()):
        assert demo.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.2)


def find_leftovers(home):
    """Name what of a rehearsal the machine still has: links, namespaces, mounts, processes in and around it."""
    mark = rehearsal_name_prefix(home)
    rows = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in LISTINGS
    ]
    leftovers = [line for text in rows for line in text.splitlines() if mark in line or str(home) in line]
    leftovers += [
        str(path) for path in Path("/proc").glob("[0-9]*/cgroup") if mark in read(path) and is_alive(path)
    ]
    return leftovers + [f"process {pid}" for pid in processes.find_rehearsal_processes(home)]


def is_alive(path):
    """Return whether a process is alive and not a zombie."""
    return read(path.parent / "stat").rpartition(")")[2].split()[:1] not in ([], ["Z"])


FAULTY_SLOTS = (4, 9, 13)  # of the demo
LISTINGS = (["ip", "netns"], ["ip", "-brief", "link"], ["mount"])


def read(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def test_processes_of_a_killed_demo_are_stopped(project, clean_env, gpufleet, tmp_path):
    rack = project / "inventory/blades-1.yaml"
    few = json.dumps([{"name": f"blade{slot:02}"} for slot in (1, *FAULTY_SLOTS)])
    rack.write_text(rack.read_text().replace("nodes: blade[01-20]", f"nodes: {few}"))
    log = tmp_path / "demo.log"
    home = project / ".gpufleet/rehearsal/production"
    demo = start_demo(project, clean_env, log)
    try:
        wait_for(log, r"users_and_access : ", demo)
        demo.send_signal(signal.SIGKILL)
        demo.wait()
        assert find_leftovers(home), "the killed demo's hosts and runs should still be there"
    finally:
        demo.kill()
        completed = gpufleet("rehearse", "down", "-s", "production", cwd=project)
    assert completed.returncode == 0, completed.stderr
    assert find_leftovers(home) == []
    assert not home.exists()
