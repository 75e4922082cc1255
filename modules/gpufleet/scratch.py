"""Temporary folders that are removed even after a kill.

The name of a folder contains its process. The next process that creates a folder of the same kind removes those of
ended processes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpufleet.process_stat import read_start_ticks

_PID_NAMESPACE = Path("/proc/self/ns/pid")


MEMORY_FOLDER = "/dev/shm"  # noqa: S108 - folders there are made by mkdtemp
LARGEST_IN_MEMORY = 128 << 20


@contextmanager
def create_scratch_folder(kind: str, parent: str | None = None) -> Iterator[Path]:
    """Create a private folder and remove it at the end; ``kind`` is one word, part of the folder's name.

    It is in ``parent``, by default in the system's folder for temporary files.
    """
    prefix = f"gpufleet-{kind}-{_pid_namespace_id()}."
    folder_of_all = Path(parent or tempfile.gettempdir())
    _remove_abandoned(folder_of_all, prefix)
    name = f"{prefix}{os.getpid()}.{read_start_ticks(os.getpid())}-"
    with tempfile.TemporaryDirectory(prefix=name, dir=folder_of_all, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def find_folder_in_memory(needed_bytes: int) -> str | None:
    """Return the system's folder in memory if it takes this many bytes and programs may run there, else None."""
    try:
        state = os.statvfs(MEMORY_FOLDER)
    except OSError:
        return None
    fits = needed_bytes <= min(LARGEST_IN_MEMORY, state.f_bavail * state.f_frsize // 2)
    usable = not state.f_flag & getattr(os, "ST_NOEXEC", 0) and os.access(MEMORY_FOLDER, os.W_OK)
    return MEMORY_FOLDER if fits and usable else None


def _remove_abandoned(parent: Path, prefix: str) -> None:
    for path in parent.glob(f"{prefix}*"):
        owner = path.name.removeprefix(prefix).partition("-")[0]
        with suppress(OSError):  # another process may remove it at the same moment
            if path.lstat().st_uid == os.geteuid() and not path.is_symlink() and not _is_alive(owner):
                shutil.rmtree(path, ignore_errors=True)


def _is_alive(owner: str) -> bool:
    """Return False if the process ``pid.start_time`` has ended; names of another form count as alive."""
    pid, _, start_time = owner.partition(".")
    if not (pid.isdecimal() and start_time.isdecimal()):
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return read_start_ticks(int(pid)) == int(start_time)


def _pid_namespace_id() -> int:
    """Return the id of the process namespace: containers with separate process ids may share a temporary folder."""
    try:
        return _PID_NAMESPACE.stat().st_ino
    except OSError:
        return 0
