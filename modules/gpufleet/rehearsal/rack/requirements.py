"""What rehearsed racks need from the machine that they run on."""

from __future__ import annotations

import os
import shutil
import sys

# program -> its Debian package
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


def list_missing_debian_packages(*, include_arm64: bool = False) -> list[str]:
    """Return the Debian packages that are missing on this machine."""
    programs = PROGRAMS | (PROGRAMS_FOR_ARM64 if include_arm64 else {})
    return sorted({package for program, package in programs.items() if not _find_program(program)})


def find_missing_requirement() -> str | None:
    """Return why hosts can't be booted here, or None if they can."""
    if sys.platform != "linux":
        return f"hosts need Linux namespaces, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "hosts need root: namespaces, mounts and systemd-nspawn"
    if missing := list_missing_debian_packages():
        return f"missing packages: {' '.join(missing)}"
    return None


def _find_program(program: str) -> str | None:
    """Search PATH and Debian's folders of root's programs, which may not be in a user's PATH."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
