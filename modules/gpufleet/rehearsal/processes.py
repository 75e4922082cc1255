"""The processes of a rehearsal: Pulumi's (engines, language hosts, providers) and our runs on its hosts.

A process belongs to the rehearsal if ``GPUFLEET_HOME`` in its environment is the rehearsal's home and its command
line is one of Pulumi, Ansible or gpufleet. A user's shell with the rehearsal's environment has only the first
property and is never stopped. SSH masters of Ansible overwrite their environment with their title; they are
recognized by the folder of their sockets.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gpufleet.process_stat import read_parent_pid

PULUMI = ("pulumi", "gpufleet.rehearsal.providers")
RUNS = ("gpufleet", "ansible", "ssh")
STOP_TIMEOUT_S = 5.0


def ssh_control_folder(home: Path) -> Path:
    """Return the folder of this rehearsal's SSH sockets. It is short because socket paths have a length limit."""
    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
    return Path(tempfile.gettempdir()) / f"gpufleet-{name}"


def find_rehearsal_processes(
    home: Path, proc_folder: Path = Path("/proc"), programs: tuple[str, ...] = (*PULUMI, *RUNS)
) -> list[int]:
    """Return the ids of this rehearsal's processes, without this process and its parents; empty without /proc."""
    mark = b"GPUFLEET_HOME=" + os.fsencode(home)
    sockets = b"ssh: " + os.fsencode(ssh_control_folder(home)) + b"/"
    process_ids = []
    for folder in proc_folder.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
            has_marks = _is_one_of(programs, arguments) and mark in (folder / "environ").read_bytes().split(
                b"\0"
            )
            if has_marks or ("ssh" in programs and arguments[0].startswith(sockets)):
                process_ids.append(int(folder.name))
    return sorted({*process_ids} - _own_process_ids())


def _own_process_ids() -> set[int]:
    """Return this process and its ancestors, which must not be stopped."""
    ancestors = [os.getpid()]
    while (parent := read_parent_pid(ancestors[-1])) > 0:
        ancestors.append(parent)
    return set(ancestors)


def find_orphaned_processes(home: Path) -> list[int]:
    """Return the processes without a running engine: language hosts survive when their engine is killed."""
    process_ids = find_rehearsal_processes(home, programs=PULUMI)
    parents = {pid: read_parent_pid(pid) for pid in process_ids}
    engines = {pid for pid in process_ids if _is_engine(pid)}
    return [pid for pid in process_ids if not engines.intersection(_ancestors(pid, parents))]


def _ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    """Return a process and its ancestors within the rehearsal."""
    ancestors = [pid]
    while (parent := parents.get(ancestors[-1], 0)) in parents and parent not in ancestors:
        ancestors.append(parent)
    return ancestors


def _is_engine(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == "pulumi"
    return False


def _is_one_of(programs: tuple[str, ...], arguments: list[bytes]) -> bool:
    """Return whether the program matches, or what Python runs: `python -m MODULE` and `python SCRIPT` count too.

    `timeout 600 pulumi up`, and `sudo`, `script` or a shell with such arguments, are programs of the user's.
    """
    names = [os.fsdecode(argument).rsplit("/", 1)[-1] for argument in arguments[:4]]
    return any(name.startswith(programs) for name in (names if names[0].startswith("python") else names[:1]))


def stop_rehearsal_processes(home: Path) -> int:
    """Stop this rehearsal's processes with SIGTERM, then SIGKILL; return how many there were."""
    stopped = _stop(lambda: find_rehearsal_processes(home))
    shutil.rmtree(ssh_control_folder(home), ignore_errors=True)
    return stopped


def stop_orphaned_processes(home: Path) -> int:
    """Stop the helper processes of killed engines; return how many there were."""
    return _stop(lambda: find_orphaned_processes(home))


def _stop(find: Callable[[], list[int]]) -> int:
    initial = find()
    for signal_number in (signal.SIGTERM, signal.SIGKILL) if initial else ():
        for pid in find():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_number)
        _wait_until_stopped(find)
    return len(initial)


def _wait_until_stopped(find: Callable[[], list[int]]) -> None:
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while find() and time.monotonic() < deadline:
        time.sleep(0.05)
