"""Install what is missing: Debian packages, then the Pulumi engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from gpufleet import engine
from gpufleet.errors import EnvironmentFault
from gpufleet.rehearsal.machine.check import (
    MachineCheck,
    PackagedProgram,
    Requirement,
    select_failed_checks,
)

Reporter = Callable[[str], None]


def install_missing_requirements(
    checks: Sequence[MachineCheck], report: Reporter, *, include_tests: bool = False
) -> None:
    """Install the missing packages for required and rack checks, and the engine.

    With ``include_tests`` also the packages for the test suite.
    """
    requirements: tuple[Requirement, ...] = (
        ("required", "racks", "tests") if include_tests else ("required", "racks")
    )
    packages = sorted(
        {package for check in select_failed_checks(checks, *requirements) for package in check.packages}
    )
    if packages:
        _install(
            packages,
            report,
            required=any(check.packages for check in select_failed_checks(checks, "required")),
        )
    for check in select_failed_checks(checks, *requirements):
        if check.unpacked:
            _unpack_program(check.unpacked, report)
    engine.ensure_pulumi_engine(report)


def _unpack_program(program: PackagedProgram, report: Reporter) -> None:
    """Take a program out of its Debian package, into the virtual environment; no service is installed or started."""
    if sys.prefix == sys.base_prefix or not shutil.which("apt-get"):
        report(
            f"{Path(program.path).name} is missing: install it, or run this in a virtual environment on Debian"
        )
        return
    report(f"taking {Path(program.path).name} out of the Debian package {program.package}")
    privilege_command = _privilege_command()
    command = f"apt-get download {program.package}"
    if privilege_command is not None:
        _run_apt([*privilege_command, "apt-get", "update", "-qq"], report, command)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run_apt(["apt-get", "download", "-qq", program.package], report, command, folder=folder)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", package, folder / "tree"], check=True)
        shutil.copy(folder / "tree" / program.path, Path(sys.prefix, "bin"))


def _install(packages: Sequence[str], report: Reporter, *, required: bool) -> None:
    """Report and install Debian packages; without the right to do so, report the command or raise if required."""
    command = f"apt-get install {' '.join(packages)}"
    privilege_command = _privilege_command()
    if privilege_command is None:
        problem = f"these Debian packages are missing: {' '.join(packages)}"
        if required:
            raise EnvironmentFault(problem, hint=f"as root: {command}, or your system's equivalents")
        report(f"{problem}; as root: {command}, or your system's equivalents")
        return
    report(f"installing Debian packages: {' '.join(packages)}")
    _run_apt([*privilege_command, "apt-get", "update", "-qq"], report, command)
    _run_apt(
        [*privilege_command, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
        report,
        command,
    )


def _privilege_command() -> list[str] | None:
    """Return the command prefix that gives apt-get root rights; None without apt-get or without these rights."""
    if not shutil.which("apt-get"):
        return None
    if os.geteuid() == 0:
        return []
    if not shutil.which("sudo"):
        return None
    if sys.stdin.isatty():
        return ["sudo"]  # it may ask for the password
    completed = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
    return ["sudo", "-n"] if completed.returncode == 0 else None


def _run_apt(
    command_line: Sequence[str], report: Reporter, command: str, *, folder: Path | None = None
) -> None:
    """Run apt and report its progress lines."""
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    process = subprocess.Popen(
        command_line,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    last_line = ""
    with process:
        for line in process.stdout or ():
            last_line = line.strip() or last_line
            if line.startswith(("Get:", "Unpacking ", "Setting up ")):
                report(f"  {last_line}")
    if process.returncode:
        raise EnvironmentFault(f"apt-get failed: {last_line}", hint=f"as root: {command}")
