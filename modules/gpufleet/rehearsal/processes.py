"""The rehearsal's own processes: Pulumi's (engines, language hosts, providers) and runs of ours on its hosts.

They are told by two marks at once: ``GPUFLEET_HOME`` in their environment names this rehearsal, and their
command line is one of Pulumi's, Ansible's or ours. A shell in which the rehearsal's environment was set has the
first mark only, and is left alone. SSH masters that Ansible keeps open write their title over their
environment; the folder of their sockets, the rehearsal's own, tells them.
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

PULUMI = ("pulumi", "gpufleet.rehearsal.providers")
RUNS = ("gpufleet", "ansible", "ssh")
PATIENCE_S = 5.0


def control_path(home: Path) -> Path:
    """Return where Ansible keeps this rehearsal's SSH sockets: short, for a socket's path is bounded."""
    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
    return Path(tempfile.gettempdir()) / f"gpufleet-{name}"


def of_home(
    home: Path, proc: Path = Path("/proc"), programs: tuple[str, ...] = (*PULUMI, *RUNS)
) -> list[int]:
    """Return the ids of this rehearsal's processes but ourselves; nothing where there is no /proc."""
    mark = b"GPUFLEET_HOME=" + os.fsencode(home)
    sockets = b"ssh: " + os.fsencode(control_path(home)) + b"/"
    found = []
    for folder in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            words = (folder / "cmdline").read_bytes().split(b"\0")
            marked = _is_one_of(programs, words) and mark in (folder / "environ").read_bytes().split(b"\0")
            if marked or ("ssh" in programs and words[0].startswith(sockets)):
                found.append(int(folder.name))
    return sorted({*found} - _ourselves())


def _ourselves() -> set[int]:
    """Return this process and those that wait for it: the one who ends a rehearsal does not end itself."""
    line = [os.getpid()]
    while (above := _parent(line[-1])) > 0:
        line.append(above)
    return set(line)


def orphans(home: Path) -> list[int]:
    """Return the ones that outlived their engine: the language host does when the engine is killed."""
    ours = of_home(home, programs=PULUMI)
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


def _is_one_of(programs: tuple[str, ...], words: list[bytes]) -> bool:
    """Look at the program and its first arguments: `python -m MODULE` and `python SCRIPT` count too."""
    names = [os.fsdecode(word).rsplit("/", 1)[-1] for word in words[:4]]
    return any(name.startswith(programs) for name in names)


def end(home: Path) -> int:
    """End this rehearsal's processes, asking first; return how many there were."""
    ended = _end(lambda: of_home(home))
    shutil.rmtree(control_path(home), ignore_errors=True)
    return ended


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
