"""Small things at the edge: the system's programs, whole files, locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpufleet.errors import EnvironmentFault

Say = Callable[[str], None]

LIMIT_S = 60


def run(command: Sequence[str], *, text: str | None = None, limit_s: float = LIMIT_S) -> str:
    """Run a program, give it ``text`` to read, return what it prints."""
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            env=environment(),
        )
    except FileNotFoundError as missing:
        raise EnvironmentFault(f"{command[0]} is not installed", hint="gpufleet doctor") from missing
    except subprocess.TimeoutExpired as late:
        raise EnvironmentFault(f"{' '.join(command)} did not end in {limit_s:.0f} s") from late
    if done.returncode:
        raise EnvironmentFault(f"{' '.join(command)} failed: {last_line(done.stderr or done.stdout)}")
    return done.stdout


def environment() -> dict[str, str]:
    """Return the environment for programs of the system: plain words, and root's folders on PATH."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    return {**os.environ, "PATH": path, "LC_ALL": "C"}


def write_whole(path: Path, text: str) -> None:
    """Write a file so that an interrupt leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.replace(path)


@contextlib.contextmanager
def alone(lock: Path, say: Say, what: str) -> Iterator[None]:
    """Hold a lock file; say so when another run must be waited for. The kernel frees it when a run dies."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that {what}")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def last_line(text: str) -> str:
    """Return the last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
