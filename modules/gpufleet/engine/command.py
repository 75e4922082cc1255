"""Run `pulumi` in a project and report its progress line by line."""

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
    report: Callable[[str], None] | None = None,
) -> str:
    """Run `pulumi` as found on the environment's PATH and return what it printed.

    With ``report`` each line is passed on as it comes. A failure is an EnvironmentFault with the engine's
    last message.
    """
    command = _build_command(arguments, environment)
    output_lines: list[str] = []
    with tempfile.TemporaryFile("w+") as error_output:
        process = subprocess.Popen(
            command, cwd=root, env=dict(environment), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=error_output, text=True,
        )  # fmt: skip
        with process:
            for line in process.stdout or ():
                output_lines.append(line)
                if report and line.strip():
                    report(line.rstrip())
        if process.returncode:
            error_output.seek(0)
            raise _build_fault(
                arguments, process.returncode, deque([*output_lines, *error_output], maxlen=200)
            )
    return "".join(output_lines)


def _build_command(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    pulumi = shutil.which("pulumi", path=environment.get("PATH", ""))
    if pulumi is None:
        raise EnvironmentFault("`pulumi` was not found on PATH", hint="run `gpufleet doctor --fix`")
    return [pulumi, *arguments, "--non-interactive", "--color", "never"]


def _build_fault(arguments: Sequence[str], code: int, lines: deque[str]) -> EnvironmentFault:
    """Name the engine's last error; without one, its last line."""
    texts = [line.strip() for line in lines if line.strip()] or ["no reason given"]
    errors = [line for line in texts if line.startswith("error:") and line != "error: update failed"]
    reason = (errors or texts)[-1].removeprefix("error: ")
    return EnvironmentFault(f"`pulumi {' '.join(arguments)}` failed ({code}): {reason[:300]}")
