"""Where a package manager runs: a container that is removed afterwards, or an overlay over a debootstrapped root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from repositories.plans import System

SCRIPT = "gpufleet-resolve.sh"
TIMEOUT_S = 1800
ROOT_SOURCES = """\
Types: deb
URIs: http://deb.debian.org/debian
Suites: {suite} {suite}-updates
Components: main contrib non-free non-free-firmware
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://deb.debian.org/debian-security
Suites: {suite}-security
Components: main contrib non-free non-free-firmware
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
# In a mount namespace of its own: all mounts end with the shell.
CHROOT = """set -e
mount -t tmpfs upper "$1"
mkdir "$1/upper" "$1/work" "$1/merged"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/merged"
cp -r "$3/." "$1/merged/"
cp -L /etc/resolv.conf "$1/merged/etc/resolv.conf"
mount -t proc proc "$1/merged/proc"
mount --rbind /dev "$1/merged/dev"
exec chroot "$1/merged" sh "/$4"
"""


class BackendError(Exception):
    """Why a system cannot be asked, on one line."""


class Backend(Protocol):
    def run(self, files: Mapping[str, str], script: str) -> tuple[int, str]:
        """Write the files into a fresh system, run the script as root; return status and output."""


def write_files(folder: Path, files: Mapping[str, str], script: str) -> None:
    for path, text in {**files, SCRIPT: script}.items():
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    # apt reads keys and lists as the user _apt.
    for folder_name, _, names in os.walk(folder):
        Path(folder_name).chmod(0o755)
        for name in names:
            Path(folder_name, name).chmod(0o644)


def run_command(command: list[str], **variables: str) -> tuple[int, str]:
    environment = {**os.environ, "LC_ALL": "C", **variables}
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124, f"stopped after {TIMEOUT_S} s"
    return done.returncode, done.stdout


class ContainerBackend:
    """podman or docker, whichever is installed; a container for each package set."""

    def __init__(self, system: System) -> None:
        program = shutil.which("podman") or shutil.which("docker")
        if program is None:
            raise BackendError("neither podman nor docker is installed; --root needs neither for Debian")
        status, output = run_command([program, "pull", "--quiet", system.image])
        if status != 0:
            lines = output.strip().splitlines() or [f"exit status {status}"]
            raise BackendError(f"cannot pull {system.image}: {lines[-1]}")
        self.program, self.image = program, system.image

    def run(self, files: Mapping[str, str], script: str) -> tuple[int, str]:
        """Run the script in a new container."""
        with tempfile.TemporaryDirectory(prefix="gpufleet-files-") as name:
            write_files(Path(name), files, script)
            copy = f"cp -r /gpufleet/. / && exec sh /{SCRIPT}"
            mount = f"{name}:/gpufleet:ro,Z"
            return run_command([self.program, "run", "--rm", "--volume", mount, self.image, "sh", "-c", copy])


class ChrootBackend:
    """A root made once by debootstrap; each package set sees it through an overlay in memory."""

    def __init__(self, system: System, cache: Path) -> None:
        if system.identifier != "debian":
            raise BackendError(f"--root makes Debian's roots only; {system.name} needs podman or docker")
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            raise BackendError("--root needs root rights and debootstrap (apt-get install debootstrap)")
        self.root = cache.resolve() / system.name
        if not (self.root / "etc/apt/sources.list.d/debian.sources").is_file():
            self._make_root(system)

    def _make_root(self, system: System) -> None:
        self.root.parent.mkdir(parents=True, exist_ok=True)
        if not (self.root / "usr/bin/apt-get").is_file() or (self.root / "debootstrap").exists():
            shutil.rmtree(self.root, ignore_errors=True)
            include = "--include=ca-certificates"
            status, output = run_command(
                ["debootstrap", "--variant=minbase", include, system.suite, str(self.root)]
            )
            if status != 0:
                lines = output.strip().splitlines() or [f"exit status {status}"]
                raise BackendError(f"debootstrap failed: {lines[-1]}")
        (self.root / "etc/apt/sources.list").unlink(missing_ok=True)
        sources = self.root / "etc/apt/sources.list.d/debian.sources"
        sources.write_text(ROOT_SOURCES.format(suite=system.suite))

    def run(self, files: Mapping[str, str], script: str) -> tuple[int, str]:
        """Run the script in the root; what it writes is lost."""
        with tempfile.TemporaryDirectory(prefix="gpufleet-root-") as name:
            folder = Path(name)
            for part in ("files", "mount"):
                (folder / part).mkdir()
            write_files(folder / "files", files, script)
            arguments = [str(folder / "mount"), str(self.root), str(folder / "files"), SCRIPT]
            return run_command(["unshare", "--mount", "sh", "-c", CHROOT, "chroot", *arguments])
