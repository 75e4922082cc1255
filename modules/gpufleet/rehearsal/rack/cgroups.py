"""Remove the control groups of hosts (boot-host.sh creates them, one tree per host)."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

# Version 2 alone, or version 1 with systemd's own tree (and version 2 next to it).
TREES = tuple(Path("/sys/fs/cgroup") / name for name in ("", "systemd", "unified"))
REMOVE_TIMEOUT_S = 60.0  # the last process of a host writes its file system back before it ends
POLL_S = 0.02


def remove_cgroup(name: str) -> None:
    """Remove a group and its children; retry while a process that has just ended still uses it."""
    deadline = time.monotonic() + REMOVE_TIMEOUT_S
    while (
        remaining := [cgroup for tree in TREES if (cgroup := tree / name).is_dir()]
    ) and time.monotonic() < deadline:
        for cgroup in remaining:
            _remove_tree(cgroup)
        time.sleep(POLL_S if any(top.is_dir() for top in remaining) else 0)


def _remove_tree(cgroup: Path) -> None:
    folders = [cgroup, *(path for path in cgroup.rglob("*") if path.is_dir())]
    for folder in sorted(folders, reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()
