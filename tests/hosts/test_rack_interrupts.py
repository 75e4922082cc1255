"""Test SIGKILL at any moment: the next command works, and `down` removes everything."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time

import pytest

from gpufleet.rehearsal import rack

ONE, TWO = "blades-poc/1", "blades-poc/2"
# Seconds after "starting" is printed: writing files, creating links, launching, booting, answering.
MOMENTS = (0.0, 0.03, 0.1, 0.25, 0.6)
UP = """
import sys
from pathlib import Path
from types import SimpleNamespace
from gpufleet import fleet
from gpufleet.rehearsal import rack
home, file = map(Path, sys.argv[1:])
use = fleet.StackRack(name="blades-poc", rack=fleet.load_rack(file, file.parent))
rack.start_racks(SimpleNamespace(home=home), [use], rack.FaultPlan(), lambda line: print(line, flush=True))
"""
DOWN = """
import sys
from pathlib import Path
from types import SimpleNamespace
from gpufleet.rehearsal import rack
rack.stop_racks(SimpleNamespace(home=Path(sys.argv[1])), lambda line: print(line, flush=True))
"""


@pytest.fixture
def kill_up(box, tmp_path):
    """Start `up` in a child process and kill it this many seconds after it begins to start hosts."""
    file = tmp_path / "blades-poc.yaml"
    file.write_text(box.declaration())

    def run(seconds):
        command = [sys.executable, "-c", UP, str(box.home), str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if line.startswith("hosts: starting"):
                    break
            time.sleep(seconds)
            process.kill()
        assert process.returncode in {-9, 0}  # 0 where the machine was quicker than the longest delay

    return run


@pytest.mark.parametrize("seconds", MOMENTS)
def test_up_succeeds_after_a_killed_up(box, kill_up, seconds):
    kill_up(seconds)
    hosts = box.up()
    assert all(host.running and host.ssh_answers for host in hosts.values())
    assert box.read(ONE, "hostname") == "poc-blade01"
    box.down()
    assert box.leftovers() == []


@pytest.mark.parametrize("seconds", MOMENTS)
def test_down_succeeds_after_a_killed_up(box, kill_up, seconds):
    kill_up(seconds)
    inside = box.process_ids_inside()
    box.down()
    time.sleep(0.5)  # a launcher that was on its way has had time to come up
    assert box.leftovers() == []
    assert box.survivors(inside) == set()


def test_down_stops_a_host_with_a_killed_launcher(box):
    box.up()
    inside = box.process_ids_inside()
    launchers = [pid for pid, _ in inside if box.name_of(pid) == "systemd-nspawn"]
    subprocess.run(["kill", "-KILL", *map(str, launchers)], check=True)
    time.sleep(0.5)
    box.down()
    assert len(launchers) == 2
    assert box.survivors(inside) == set()
    assert box.leftovers() == []


@pytest.mark.parametrize("lost", ["rack", "."])
def test_down_works_without_the_rehearsals_files(box, lost):
    box.up()
    inside = box.process_ids_inside()
    shutil.rmtree(box.home / lost)
    box.down()
    assert box.survivors(inside) == set()
    assert box.leftovers() == []


def test_hosts_of_a_deleted_project_are_found(box):
    box.up()
    assert box.home not in [lost.home for lost in rack.find_deleted_rehearsals()]
    shutil.rmtree(box.home)
    assert box.home in [lost.home for lost in rack.find_deleted_rehearsals()]
    box.down()
    assert box.home not in [lost.home for lost in rack.find_deleted_rehearsals()]


def test_killed_down_is_completed_by_the_next_one(box):
    box.up()
    inside = box.process_ids_inside()
    with subprocess.Popen([sys.executable, "-c", DOWN, str(box.home)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        time.sleep(0.1)
        process.kill()
    box.down()
    assert box.survivors(inside) == set()
    assert box.leftovers() == []
