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


def _is_pulumi(words: list[bytes]) -> bool:
    """Look at the program and its first arguments: `python -m MODULE` and `python SCRIPT` are Pulumi's too."""
    names = [os.fsdecode(word).rsplit("/", 1)[-1] for word in words[:4]]
    return any(name.startswith(PROGRAMS) for name in names)


def end(home: Path) -> int:
    """End this rehearsal's processes, asking first; return how many there were."""
    pids = of_home(home)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in of_home(home):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        _wait(home)
    return len(pids)


def _wait(home: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while of_home(home) and time.monotonic() < deadline:
        time.sleep(0.05)
