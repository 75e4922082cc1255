"""One agent loads a node at a time, whatever record it writes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time

LOCK_NAME = "gpufleet-burn-in.lock"
# The work of an agent that was killed a moment ago may still be ending.
LOCK_SECONDS = 5.0


class NodeLockedError(RuntimeError):
    """Another agent is at work on this node."""


def default_lock_path() -> str:
    """Return the node's lock file: in /run/lock, or where every user may write."""
    folders = [folder for folder in ("/run/lock", tempfile.gettempdir()) if os.path.isdir(folder)]  # noqa: PTH112 - the agent's style
    return os.path.join(folders[0], LOCK_NAME)  # noqa: PTH118


class NodeLock:
    """The lock, held by every process that has it open; so no file is left that could lie about its owner."""

    def __init__(self, path: str) -> None:
        """Take the lock, or none without a path; raise NodeLockedError where another agent has it."""
        self.descriptor = -1
        if not path:
            return
        self.descriptor = open_lock_file(path)
        deadline = time.monotonic() + LOCK_SECONDS
        while not self._try_lock():
            if time.monotonic() > deadline:
                owner = os.read(self.descriptor, 20).decode("ascii", "replace").strip()
                self.close()
                raise NodeLockedError(f"another agent measures this node (process {owner})")
            time.sleep(0.05)
        with contextlib.suppress(OSError):  # another user's file can be locked, not written
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, f"{os.getpid()}\n".encode(), 0)

    def _try_lock(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def close(self) -> None:
        """Let go of the lock, as a forked check must: one that cannot be stopped would keep the node locked."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1


def open_lock_file(path: str) -> int:
    """Open the lock file without following a link; another user's file is opened for reading."""
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o644)
    except PermissionError:
        return os.open(path, os.O_RDONLY | flags)
