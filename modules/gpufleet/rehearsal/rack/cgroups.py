"""Removing the control groups that hosts leave behind (boot-host.sh makes them, one tree per host)."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

# Version 2 alone, or version 1 with systemd's own tree (and version 2 beside it).
TREES = tuple(Path("/sys/fs/cgroup") / name for name in ("", "systemd", "unified"))
PATIENCE_S = 5.0
POLL_S = 0.02


def remove(name: str) -> None:
    """Remove a group with all below it; a process that has just ended may hold it for a moment."""
    deadline = time.monotonic() + PATIENCE_S
    while (left := [top for tree in TREES if (top := tree / name).is_dir()]) and time.monotonic() < deadline:
        for top in left:
            _remove_tree(top)
        time.sleep(POLL_S if any(top.is_dir() for top in left) else 0)


def _remove_tree(top: Path) -> None:
    folders = [top, *(path for path in top.rglob("*") if path.is_dir())]
    for folder in sorted(folders, reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()
