# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""The SSH session in which a module runs."""

from __future__ import annotations

import os
from pathlib import Path


def read_ssh_connection(proc_folder: Path = Path("/proc")) -> str:
    """Return SSH_CONNECTION of this run's session, from the parent processes: sudo removes it from our environment."""
    pid = os.getpid()
    while pid > 1:
        try:
            variables = (proc_folder / str(pid) / "environ").read_bytes().split(b"\0")
            stat = (proc_folder / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        entries = [entry for entry in variables if entry.startswith(b"SSH_CONNECTION=")]
        if entries:
            return entries[0].partition(b"=")[2].decode("ascii", "replace")
        pid = int(stat.rpartition(")")[2].split()[1])
    return ""
