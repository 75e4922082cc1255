"""Temporary folders that a killed process cannot leave behind for good.

Each folder's name says which process made it. The next one of the same kind removes those whose process has ended.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PROC = Path("/proc")


@contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """Give a private folder, removed at the end; ``kind`` is one word, part of the folder's name."""
    lead = f"gpufleet-{kind}-{_namespace()}."
    place = Path(tempfile.gettempdir())
    _remove_abandoned(place, lead)
    name = f"{lead}{os.getpid()}.{_started(os.getpid())}-"
    with tempfile.TemporaryDirectory(prefix=name, dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _remove_abandoned(place: Path, lead: str) -> None:
    for path in place.glob(f"{lead}*"):
        owner = path.name.removeprefix(lead).partition("-")[0]
        with suppress(OSError):  # another process may remove it at the same moment
            if path.lstat().st_uid == os.geteuid() and not path.is_symlink() and not _is_alive(owner):
                shutil.rmtree(path, ignore_errors=True)


def _is_alive(owner: str) -> bool:
    """Return True unless the process that ``pid.start`` names has ended; a name of another form counts as alive."""
    pid, _, started = owner.partition(".")
    if not (pid.isdecimal() and started.isdecimal()):
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return _started(int(pid)) == int(started)


def _started(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 where the system does not say."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0


def _namespace() -> int:
    """Return which process numbers are meant: containers may share a temporary folder and number on their own."""
    try:
        return (_PROC / "self" / "ns" / "pid").stat().st_ino
    except OSError:
        return 0
