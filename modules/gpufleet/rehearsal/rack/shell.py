"""Run system programs, write files atomically, lock files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpufleet.errors import EnvironmentFault

Reporter = Callable[[str], None]

DEFAULT_TIMEOUT_S = 60


def run_command(
    command: Sequence[str], *, stdin_text: str | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
) -> str:
    """Run a program with ``stdin_text`` as its input; return its output."""
    try:
        completed = subprocess.run(
            command,
            input=stdin_text,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env=build_system_environment(),
        )
    except FileNotFoundError as error:
        raise EnvironmentFault(f"{command[0]} is not installed", hint="gpufleet doctor") from error
    except subprocess.TimeoutExpired as timeout:
        raise EnvironmentFault(f"{' '.join(command)} did not finish within {timeout_s:.0f} s") from timeout
    if completed.returncode:
        raise EnvironmentFault(
            f"{' '.join(command)} failed: {find_last_nonblank_line(completed.stderr or completed.stdout)}"
        )
    return completed.stdout


def build_system_environment() -> dict[str, str]:
    """Return the environment for system programs: the C locale, and root's folders on PATH."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    return {**os.environ, "PATH": path, "LC_ALL": "C"}


def write_file_atomically(path: Path, text: str) -> None:
    """Write a file so that an interrupt leaves the old or the new content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    temporary.replace(path)


@contextlib.contextmanager
def exclusive_lock(lock: Path, report: Reporter, activity: str) -> Iterator[None]:
    """Hold an exclusive lock; report if another run holds it. The kernel releases it when a process ends."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as lock_file:
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another run that {activity}")
            fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield


def find_last_nonblank_line(text: str) -> str:
    """Return the last line that is not blank."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
