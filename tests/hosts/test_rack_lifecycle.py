"""Test that `up` creates only what is missing and applies changed faults, and that `down` removes everything."""

from __future__ import annotations

import re
import subprocess

import pytest

from gpufleet.errors import InputError
from gpufleet.rehearsal.rack.plan import rehearsal_name_prefix

ONE, TWO = "blades-poc/1", "blades-poc/2"


def pids(hosts):
    return {place: host.pid for place, host in hosts.items()}


def test_second_up_changes_nothing(box):
    assert pids(box.up()) == pids(box.up())


def test_up_restarts_only_the_stopped_host_and_keeps_its_files(box):
    before = box.up()
    box.read(TWO, "echo configured >/etc/mark")
    subprocess.run(["kill", "-KILL", str(before[TWO].pid)], check=True)
    after = box.up()
    assert (after[ONE].pid == before[ONE].pid, after[TWO].pid == before[TWO].pid) == (True, False)
    assert box.read(TWO, "cat /etc/mark; cat /etc/machine-id").splitlines()[0] == "configured"


def test_faults_are_added_and_removed_on_their_host_only(box):
    before = box.up()
    faulty = box.up(f"faults: {{{TWO}: [disk_full, undervoltage]}}")
    assert box.read(TWO, "df --output=avail / | tail -1; vcgencmd get_throttled").split() == [
        "0",
        "throttled=0x50005",
    ]
    cured = box.up()
    assert (
        box.read(TWO, "vcgencmd get_throttled; df --output=avail / | tail -1").split()[0] == "throttled=0x0"
    )
    assert int(box.read(TWO, "df --output=avail / | tail -1")) > 0
    assert before[ONE].pid == faulty[ONE].pid == cured[ONE].pid


def test_network_faults_are_simulated(box):
    hosts = box.up(f"faults: {{{ONE}: slow_link, {TWO}: link_down}}")
    assert (hosts[ONE].ssh_answers, hosts[TWO].ssh_answers, hosts[TWO].running) == (True, False, True)
    sent = subprocess.run(["tc", "qdisc", "show"], capture_output=True, text=True, check=True).stdout
    assert "rate 10Mbit" in sent
    assert all(host.ssh_answers for host in box.up().values())


def test_smaller_rack_stops_the_removed_hosts(box):
    box.up()
    box.slots = 1
    assert list(box.up()) == [ONE]
    processes = subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout.splitlines()
    rack_processes = [line for line in processes if f"--machine={rehearsal_name_prefix(box.home)}" in line]
    assert {name for line in rack_processes for name in re.findall("--hostname=([^ ]+)", line)} == {
        "poc-blade01"
    }


def test_fault_on_an_unknown_node_boots_nothing(box):
    with pytest.raises(InputError, match="blades-9/9: no such node"):
        box.up("faults: {blades-9/9: disk_full}")
    assert [leftover for leftover in box.leftovers() if "process" in leftover] == []


def test_down_removes_everything_and_can_be_repeated(box):
    box.up()
    inside = box.process_ids_inside()
    assert len(inside) > 4
    box.down()
    assert box.leftovers() == []
    assert inside & box.process_ids_inside() == set()
    box.down()
    assert box.leftovers() == []


def test_concurrent_rehearsals_get_different_networks(box, faulty_rack):
    box.up()
    assert box.address(ONE) != faulty_rack.address(ONE)
    box.down()
    assert faulty_rack.read(ONE, "hostname") == "poc-blade01"
