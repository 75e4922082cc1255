"""Runs `pulumi` in a project, with its progress passed on line by line."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpufleet.errors import EnvironmentFault


def run_pulumi(
    arguments: Sequence[str],
    root: Path,
    environment: Mapping[str, str],
    say: Callable[[str], None] | None = None,
) -> str:
    """Run `pulumi` as found on the environment's PATH and return what it printed.

    With ``say`` each line is passed on as it comes. A failure is an EnvironmentFault with the engine's own
    last words.
    """
    command = _command(arguments, environment)
    printed: list[str] = []
    with tempfile.TemporaryFile("w+") as talk:
        process = subprocess.Popen(
            command, cwd=root, env=dict(environment), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=talk, text=True,
        )  # fmt: skip
        with process:
            for line in process.stdout or ():
                printed.append(line)
                if say and line.strip():
                    say(line.rstrip())
        if process.returncode:
            talk.seek(0)
            raise _fault(arguments, process.returncode, deque([*printed, *talk], maxlen=200))
    return "".join(printed)


def _command(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    pulumi = shutil.which("pulumi", path=environment.get("PATH", ""))
    if pulumi is None:
        raise EnvironmentFault("no `pulumi` on PATH", hint="run `gpufleet doctor --fix`")
    return [pulumi, *arguments, "--non-interactive", "--color", "never"]


def _fault(arguments: Sequence[str], code: int, lines: deque[str]) -> EnvironmentFault:
    """Name the engine's last error; without one, its last line."""
    words = [line.strip() for line in lines if line.strip()] or ["no reason given"]
    errors = [line for line in words if line.startswith("error:") and line != "error: update failed"]
    reason = (errors or words)[-1].removeprefix("error: ")
    return EnvironmentFault(f"`pulumi {' '.join(arguments)}` failed ({code}): {reason[:300]}")
