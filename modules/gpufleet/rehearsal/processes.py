"""The rehearsal's own pulumi processes: engines, language hosts, programs and simulated providers.

They are told by two marks at once: ``GPUFLEET_HOME`` in their environment names this rehearsal, and their
command line is one of Pulumi's. A shell in which the rehearsal's environment was set has the first mark only,
and is left alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

PROGRAMS = ("pulumi", "gpufleet.rehearsal.providers")
PATIENCE_S = 5.0


def of_home(home: Path, proc: Path = Path("/proc")) -> list[int]:
    """Return the ids of this rehearsal's pulumi processes; nothing where there is no /proc."""
    mark = b"GPUFLEET_HOME=" + os.fsencode(home)
    found = []
    for folder in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if _is_pulumi(words) and mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return sorted(found)


def orphans(home: Path) -> list[int]:
    """Return the ones that outlived their engine: the language host does when the engine is killed."""
    ours = of_home(home)
    parents = {pid: _parent(pid) for pid in ours}
    engines = {pid for pid in ours if _is_engine(pid)}
    return [pid for pid in ours if not engines.intersection(_line(pid, parents))]


def _line(pid: int, parents: dict[int, int]) -> list[int]:
    """Return a process and its forebears, as far as they are ours."""
    line = [pid]
    while (above := parents.get(line[-1], 0)) in parents and above not in line:
        line.append(above)
    return line


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _is_engine(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == "pulumi"
    return False


def _is_pulumi(words: list[bytes]) -> bool:
    """Look at the program and its first arguments: `python -m MODULE` and `python SCRIPT` are Pulumi's too."""
    names = [os.fsdecode(word).rsplit("/", 1)[-1] for word in words[:4]]
    return any(name.startswith(PROGRAMS) for name in names)


def end(home: Path) -> int:
    """End this rehearsal's processes, asking first; return how many there were."""
    return _end(lambda: of_home(home))


def end_orphans(home: Path) -> int:
    """End what a killed engine left running; return how many there were."""
    return _end(lambda: orphans(home))


def _end(who: Callable[[], list[int]]) -> int:
    first = who()
    for number in (signal.SIGTERM, signal.SIGKILL) if first else ():
        for pid in who():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        _wait(who)
    return len(first)


def _wait(who: Callable[[], list[int]]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while who() and time.monotonic() < deadline:
        time.sleep(0.05)
