"""Test package installation on hosts without network access, through the rehearsal's server."""

from __future__ import annotations

import subprocess

import pytest

from gpufleet.rehearsal import packages
from gpufleet.rehearsal.rack.plan import rehearsal_name_prefix

ONE = "blades-poc/1"
INSTALL = "apt-get update -qq && apt-get install -qq -y --no-install-recommends {} >/dev/null"


@pytest.fixture
def second_rehearsal(box, tmp_path):
    """Give a second rehearsal on the same machine."""
    other = type(box)(tmp_path / "beside", slots=1)
    yield other
    other.down()


def test_two_rehearsals_install_packages_concurrently_and_leave_no_files(box, second_rehearsal):
    box.slots = 1
    box.up()
    second_rehearsal.up()
    box.read(ONE, INSTALL.format("hello rehearsal-example=1.0-1"))
    assert box.read(ONE, "hello; rehearsal-example").splitlines() == ["Hello, world!", "1.0-1"]
    assert "FAKE" in box.read(ONE, "apt-cache show rehearsal-example")
    box.read(ONE, "apt-get install -qq -y rehearsal-example >/dev/null")
    assert box.read(ONE, "rehearsal-example") == "2.0-1"
    box.down()
    assert box.leftovers() == []
    assert packages.find_package_server_processes(rehearsal_name_prefix(box.home)) == []
    second_rehearsal.read(ONE, INSTALL.format("hello"))
    second_rehearsal.down()
    assert second_rehearsal.leftovers() == []


def test_killed_package_server_is_restarted_and_hosts_keep_running(box):
    box.slots = 1
    before = box.up()
    killed = packages.find_package_server_processes(rehearsal_name_prefix(box.home))
    subprocess.run(["kill", "-KILL", *map(str, killed)], check=True)
    refused = box.ssh(ONE, "apt-get update 2>&1")
    assert "Could not connect to" in refused.stdout
    after = box.up()
    assert before[ONE].pid == after[ONE].pid
    assert set(packages.find_package_server_processes(rehearsal_name_prefix(box.home))) & set(killed) == set()
    box.read(ONE, "apt-get update -qq")


def test_package_server_responds_to_hosts_only(box):
    box.slots = 1
    box.up()
    gateway = box.address(ONE).rsplit(".", 1)[0] + ".1"
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    own_addresses = [
        line.split()[3]
        for line in listening.splitlines()
        if f"pid={packages.find_package_server_processes(rehearsal_name_prefix(box.home))[0]}," in line
    ]
    assert own_addresses == [f"{gateway}:3180"]
