"""Fields of ``/proc/<pid>/stat``: the state, the parent and the start time of a process."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")
# Positions after the command name in parentheses, as in proc(5).
_STATE, _PARENT, _START_TIME = 0, 1, 19


def is_process_alive(pid: int) -> bool:
    """Return True unless the process has ended; a zombie has. False without /proc."""
    return _text(pid, _STATE) not in ("", "Z", "X")


def read_parent_pid(pid: int) -> int:
    """Return the id of the parent process; 0 if the process has ended or without /proc."""
    return _field(pid, _PARENT)


def read_start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 if it has ended or without /proc."""
    return _field(pid, _START_TIME)


def _field(pid: int, position: int) -> int:
    return int(_text(pid, position) or 0)


def _text(pid: int, position: int) -> str:
    try:
        # The command name may contain spaces and parentheses.
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[position]
    except (OSError, IndexError):
        return ""
