"""A run's processes on this machine: started under the supervisor, marked, and ended together with the run.

Ansible's workers leave its session and process group, and so do the SSH connections that they keep open. The
supervisor (``burnin/agent/supervisor.py``, started as a program) is their ancestor whatever they do, and ends them
when Ansible or this process dies. The mark in their environment finds what is left where the supervisor was killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gpufleet import __file__ as package_file
from gpufleet.process_stat import is_process_alive

SUPERVISOR = Path(package_file).parent / "burnin" / "agent" / "supervisor.py"
MARK = "GPUFLEET_RUN"
PATIENCE_SECONDS = 45.0


def find_memory_backed_folder() -> str | None:
    """Return a folder whose files never reach a disk, where the system has one."""
    shared = "/dev/shm"  # noqa: S108 - files there are made by mkstemp and mkdtemp
    return shared if os.access(shared, os.W_OK) else None


@contextlib.contextmanager
def create_run_scratch_folder() -> Iterator[Path]:
    """Yield a folder that only this user can enter, in memory if possible; it is removed after the run.

    It holds the extra variables and the sockets of the run's SSH connections. Its name is short: the path of a
    socket is bounded.
    """
    folder = Path(tempfile.mkdtemp(prefix="gpufleet-", dir=find_memory_backed_folder()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def build_run_environment(run_id: str, scratch: Path) -> dict[str, str]:
    """Return the variables that mark a run's processes and keep its sockets and temporary files in its own folder.

    A module that is killed on this machine leaves its unpacked payload in TMPDIR; there it goes with the run.
    """
    return {MARK: run_id, "ANSIBLE_SSH_CONTROL_PATH_DIR": str(scratch), "TMPDIR": str(scratch)}


def build_supervisor_command(
    scratch: Path | None = None, *, follow_parent: bool = False, grace_s: float = 0.0
) -> list[str]:
    """Return the command prefix that starts a command under supervision.

    ``follow`` stops it when this process dies; a command with a terminal of its own hears of that from the terminal.
    ``grace_s`` are the seconds that it gets to stop by itself.
    """
    options = ["--scratch", str(scratch)] if scratch else []
    options += ["--follow-parent"] if follow_parent else []
    return [sys.executable, str(SUPERVISOR), *options, "--grace", str(grace_s), "--"]


def finish_run_processes(run_id: str, scratch: Path, *, was_stopped: bool) -> None:
    """Wait until the run's supervisor has gone; after a stopped run, kill what a killed supervisor left.

    A supervisor that ended a stopped run removed ``scratch``. What then still runs is a package manager in the
    middle of its transaction, and stays.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(_is_supervisor(pid) for pid in find_run_pids(run_id)) and time.monotonic() < deadline:
        time.sleep(0.02)
    while (
        was_stopped
        and scratch.exists()
        and (remaining := find_run_pids(run_id))
        and time.monotonic() < deadline
    ):
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def find_run_pids(run_id: str) -> list[int]:
    """Return the live processes that carry a run's mark; nothing where there is no /proc."""
    mark = f"{MARK}={run_id}".encode()
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            if mark in (folder / "environ").read_bytes().split(b"\0") and is_process_alive(int(folder.name)):
                pids.append(int(folder.name))
    return [pid for pid in pids if pid != os.getpid()]


def _is_supervisor(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return os.fsencode(SUPERVISOR) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:3]
    return False
