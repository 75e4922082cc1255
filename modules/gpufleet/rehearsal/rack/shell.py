"""Running the system's programs, and telling of their failures in one line."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from gpufleet.errors import EnvironmentFault

LIMIT_S = 60


def run(command: Sequence[str], *, text: str | None = None, limit_s: float = LIMIT_S) -> str:
    """Run a program, give it ``text`` to read, return what it prints."""
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except FileNotFoundError as missing:
        raise EnvironmentFault(f"{command[0]} is not installed", hint="gpufleet doctor") from missing
    except subprocess.TimeoutExpired as late:
        raise EnvironmentFault(f"{' '.join(command)} did not end in {limit_s:.0f} s") from late
    if done.returncode:
        raise EnvironmentFault(f"{' '.join(command)} failed: {last_line(done.stderr or done.stdout)}")
    return done.stdout


def last_line(text: str) -> str:
    """Return the last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
