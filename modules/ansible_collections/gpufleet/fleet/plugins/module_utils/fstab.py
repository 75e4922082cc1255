# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""The host's /etc/fstab, and the file systems that its kernel has."""

from __future__ import annotations

import os
from pathlib import Path

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    HostError,
    read_access,
    replace_file_atomically,
    run_program,
)

FSTAB = Path("/etc/fstab")
KERNEL_LISTS = (Path("/proc/filesystems"), Path("/proc/mdstat"))


def write_fstab(text: str) -> None:
    """Replace fstab and have systemd read it."""
    replace_file_atomically(FSTAB, text, read_access(FSTAB) if FSTAB.exists() else (0o644, 0, 0))
    run_program(["systemctl", "daemon-reload"])


def kernel_supports_module(name: str) -> bool:
    """Return whether the running kernel has a file system or a RAID level, or could load it. Loads nothing."""
    listed = [entry.strip("[]") for p in KERNEL_LISTS if p.exists() for entry in p.read_text().split()]
    return name in listed or run_program(["modprobe", "--dry-run", "--quiet", name])[0] == 0


def require_kernel_module(name: str, mount_point: str) -> None:
    """Raise HostError if the running kernel has no such file system or RAID level."""
    if not kernel_supports_module(name):
        raise HostError(f"{mount_point}: the running kernel ({os.uname().release}) has no {name}")
