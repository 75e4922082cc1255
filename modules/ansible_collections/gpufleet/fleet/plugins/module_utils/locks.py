# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""The locks of dpkg and apt: who holds one, and waiting for it with a limit."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from pathlib import Path

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError

LOCK_FILES = [
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/lib/apt/lists/lock",
    "/var/cache/apt/archives/lock",
]
# struct flock on 64-bit Linux: type, whence, (padding) start, length, process.
FLOCK = "hhqqi"
PAUSE = 0.5


def find_lock_holder_pid(path: str) -> int | None:
    """Return the process that holds a lock on the file, or None. Does not take the lock."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None  # no such file: this host's apt has never locked it
    try:
        question = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, __, __, __, process = struct.unpack(FLOCK, fcntl.fcntl(handle, fcntl.F_GETLK, question))
    finally:
        os.close(handle)
    return None if kind == fcntl.F_UNLCK else process


def describe_process(pid: int) -> str:
    """Return a process as its command line and id."""
    try:
        command = (
            Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ").strip()
        )
    except OSError:
        command = ""
    return f"{command[:80]} (process {pid})" if command else f"process {pid}"


def find_first_held_lock() -> tuple[str, int] | None:
    """Return the first lock that is held and its holder, or None."""
    holders = ((path, find_lock_holder_pid(path)) for path in LOCK_FILES)
    return next(((path, process) for path, process in holders if process is not None), None)


def wait_for_package_locks(max_seconds: float) -> None:
    """Return when all locks are free; after that many seconds raise HostError with the holder of one."""
    deadline = time.monotonic() + max_seconds
    while True:
        held_lock = find_first_held_lock()
        if held_lock is None:
            return
        if time.monotonic() >= deadline:
            path, process = held_lock
            raise HostError(
                f"{path} is still held by {describe_process(process)} after {max_seconds:.0f} s", lock=path
            )
        time.sleep(PAUSE)
