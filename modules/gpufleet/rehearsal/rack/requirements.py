"""What a rack in a box needs from the machine it runs on."""

from __future__ import annotations

import os
import shutil
import sys

# program -> the Debian package that brings it
PROGRAMS = {
    "debootstrap": "debootstrap",
    "dpkg-deb": "dpkg",
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setsid": "util-linux",
    "setpriv": "util-linux",
}
# arm64 hosts on another processor need these as well
PROGRAMS_FOR_ARM64 = {"qemu-aarch64-static": "qemu-user-static", "update-binfmts": "binfmt-support"}


def missing_packages(*, arm64: bool = False) -> list[str]:
    """Name the Debian packages that this machine lacks."""
    wanted = PROGRAMS | (PROGRAMS_FOR_ARM64 if arm64 else {})
    return sorted({package for program, package in wanted.items() if not _find(program)})


def unavailable_reason() -> str | None:
    """Say why hosts can't be booted here, or return None where they can."""
    if sys.platform != "linux":
        return f"hosts need Linux namespaces, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "hosts need root: namespaces, mounts and systemd-nspawn"
    if missing := missing_packages():
        return f"missing packages: {' '.join(missing)}"
    return None


def _find(program: str) -> str | None:
    """Look on PATH and where Debian keeps programs for root, which a user's PATH may leave out."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
