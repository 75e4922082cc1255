"""Fields of ``/proc/<pid>/stat``: the parent and the start time of a process."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")
# Positions after the command name in parentheses, as in proc(5).
_PARENT, _START_TIME = 1, 19


def parent_id(pid: int) -> int:
    """Return the id of the parent process; 0 if the process has ended or without /proc."""
    return _field(pid, _PARENT)


def start_time_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 if it has ended or without /proc."""
    return _field(pid, _START_TIME)


def _field(pid: int, position: int) -> int:
    try:
        # The command name may contain spaces and parentheses.
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[position])
    except (OSError, ValueError, IndexError):
        return 0
