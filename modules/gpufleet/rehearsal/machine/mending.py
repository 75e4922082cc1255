"""Brings what is missing and can be brought: Debian packages, then the engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence

from gpufleet import engine
from gpufleet.errors import EnvironmentFault
from gpufleet.rehearsal.machine.check import Check, Need, missing

Say = Callable[[str], None]


def mend(checks: Sequence[Check], say: Say, *, tests: bool = False) -> None:
    """Install the packages that required and rack checks lack (``tests``: and the test suite's), then the engine."""
    needs: tuple[Need, ...] = ("required", "racks", "tests") if tests else ("required", "racks")
    packages = sorted({package for check in missing(checks, *needs) for package in check.packages})
    if packages:
        _install(packages, say, required=any(check.packages for check in missing(checks, "required")))
    engine.ensure(say)


def _install(packages: Sequence[str], say: Say, *, required: bool) -> None:
    """Install Debian packages after naming them; where that cannot be, name the command and go on."""
    command = f"apt-get install {' '.join(packages)}"
    rights = _rights()
    if rights is None:
        problem = f"these Debian packages are missing: {' '.join(packages)}"
        if required:
            raise EnvironmentFault(problem, hint=f"as root: {command}, or your system's equivalents")
        say(f"{problem}; as root: {command}, or your system's equivalents")
        return
    say(f"installing Debian packages: {' '.join(packages)}")
    _apt([*rights, "apt-get", "update", "-qq"], say, command)
    _apt([*rights, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], say, command)


def _rights() -> list[str] | None:
    """Return what must stand before apt-get here; nothing where there is no apt-get or no right to run it."""
    if not shutil.which("apt-get"):
        return None
    if os.geteuid() == 0:
        return []
    if not shutil.which("sudo"):
        return None
    if sys.stdin.isatty():
        return ["sudo"]  # it may ask for the password
    silent = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
    return ["sudo", "-n"] if silent.returncode == 0 else None


def _apt(words: Sequence[str], say: Say, command: str) -> None:
    """Run apt and pass its lines on, so that a long download can be watched."""
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    process = subprocess.Popen(
        words,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    last = ""
    with process:
        for line in process.stdout or ():
            last = line.strip() or last
            if line.startswith(("Get:", "Unpacking ", "Setting up ")):
                say(f"  {last}")
    if process.returncode:
        raise EnvironmentFault(f"apt-get failed: {last}", hint=f"as root: {command}")
