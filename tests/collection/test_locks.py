"""Test that the process which holds dpkg's lock is found and reported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils import locks
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def held_lock(tmp_path, monkeypatch):
    """Give a lock file that another process holds until its input ends."""
    path = tmp_path / "lock"
    path.touch()
    monkeypatch.setattr(locks, "LOCK_FILES", [str(tmp_path / "none"), str(path)])
    monkeypatch.setattr(locks, "PAUSE", 0.02)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"held\n"
        yield process


def test_lock_holder_is_named_after_the_timeout(held_lock):
    with pytest.raises(
        HostError, match=rf"lock is still held by .*python.* \(process {held_lock.pid}\) after 0 s"
    ):
        locks.wait_for_package_locks(0)


def test_module_waits_for_a_lock_to_be_released(held_lock):
    held_lock.stdin.close()
    locks.wait_for_package_locks(60)
    assert locks.find_first_held_lock() is None


def test_lock_query_takes_no_lock(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    handle = os.open(path, os.O_RDWR)
    assert locks.find_lock_holder_pid(str(path)) is None
    os.close(handle)
