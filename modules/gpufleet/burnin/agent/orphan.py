"""An attached agent ends with its caller: the process that started it, or the SSH session around that."""

from __future__ import annotations

import os
from typing import Callable  # noqa: UP035 - Python 3.9 runs this

from .supervisor import read_process_start_time, read_process_table


def build_orphan_check(session_pid: int = 0) -> Callable[[], bool]:
    """Return a function that is true once the process that started us, or its SSH session, has ended.

    The caller may name the session's process: it may have ended before we could look for it.
    """
    table = {process.pid: process for process in read_process_table()}
    watched = [os.getppid()]
    ancestor = table.get(os.getppid())
    while ancestor and not ancestor.name.startswith("sshd"):
        ancestor = table.get(ancestor.parent)
    watched += [session_pid or (ancestor.pid if ancestor else watched[0])]
    start_times = {pid: read_process_start_time(pid) for pid in watched}
    return lambda: any(
        not moment or read_process_start_time(pid) != moment for pid, moment in start_times.items()
    )
