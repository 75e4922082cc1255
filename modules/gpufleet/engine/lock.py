"""An exclusive lock that the system releases when its process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive_file_lock(path: Path, report: Callable[[str], None], activity: str) -> Iterator[None]:
    """Hold the lock file ``path`` while the body runs; if another process holds it, report that and wait.

    The body may remove the file: a process that waited for it then creates and locks a new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _acquire(path, report, activity)
    while not _is_same_file(descriptor, path):
        os.close(descriptor)
        descriptor = _acquire(path, report, activity)
    try:
        yield
    finally:
        os.close(descriptor)


def _acquire(path: Path, report: Callable[[str], None], activity: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        report(f"waiting: another process is {activity}")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        current = path.stat()
    except FileNotFoundError:
        return False
    locked = os.fstat(descriptor)
    return (locked.st_dev, locked.st_ino) == (current.st_dev, current.st_ino)
