"""Parent and start time of processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from gpufleet.process_stat import is_process_alive, read_parent_pid, read_start_ticks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_child_process_has_its_parent_id_and_a_stable_start_time(tmp_path):
    program = tmp_path / "a) 1 (b"  # spaces and parentheses in the command name
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(program), "60"])
    try:
        time.sleep(0.1)
        assert read_parent_pid(child.pid) == os.getpid()
        assert read_start_ticks(child.pid) == read_start_ticks(child.pid) >= read_start_ticks(os.getpid()) > 0
        assert is_process_alive(child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_process_alive(child.pid), "a zombie has ended"
    finally:
        child.kill()
        child.wait()
    assert not is_process_alive(child.pid)
    assert (read_parent_pid(child.pid), read_start_ticks(child.pid)) == (0, 0)
