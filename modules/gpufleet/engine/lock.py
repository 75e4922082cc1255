"""One at a time: a lock that ends with the process that holds it, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path, say: Callable[[str], None], doing: str) -> Iterator[None]:
    """Hold the lock file ``path`` while the body runs; wait, and say so, where another holds it.

    The body may remove the file: whoever waited for it then makes and locks a new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _acquire(path, say, doing)
    while not _same_file(descriptor, path):
        os.close(descriptor)
        descriptor = _acquire(path, say, doing)
    try:
        yield
    finally:
        os.close(descriptor)


def _acquire(path: Path, say: Callable[[str], None], doing: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"waiting: another process is {doing}")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    held = os.fstat(descriptor)
    return (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino)
