"""Find and stop the processes of hosts.

All processes of a host (its launcher, systemd-nspawn, its systemd and all children) are in the host's network
namespace. The kernel is asked each time, so no record can be missing, stale or point to a reused process id.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

NAMESPACES = Path("/run/netns")
POLL_S = 0.05


def find_host_processes(labels: Iterable[str]) -> dict[str, list[int]]:
    """Return label -> process ids inside the network namespace of that name."""
    labels_by_identity = {
        _file_identity(NAMESPACES / label): label for label in labels if (NAMESPACES / label).exists()
    }
    process_ids: dict[str, list[int]] = defaultdict(list)
    for pid in _all_process_ids() if labels_by_identity else []:
        identity = _file_identity(Path(f"/proc/{pid}/ns/net"))
        if identity in labels_by_identity:
            process_ids[labels_by_identity[identity]].append(pid)
    return dict(process_ids)


def find_init_pid(pids: Iterable[int]) -> int | None:
    """Return the host's init: the process with id 1 in its own process namespace."""
    for pid in pids:
        namespace_pids = _read_status(pid).get("NSpid", "").split()
        if len(namespace_pids) > 1 and namespace_pids[-1] == "1":
            return pid
    return None


def find_nspawn_pid(pids: Iterable[int]) -> int | None:
    """Return the process id of the systemd-nspawn that runs the host."""
    return next((pid for pid in pids if _read_status(pid).get("Name") == "systemd-nspawn"), None)


def stop_hosts(
    labels: Iterable[str], *, terminate_timeout_s: float = 3, kill_timeout_s: float = 60
) -> list[str]:
    """Stop all processes inside the namespaces, first with SIGTERM; return the labels with remaining processes."""
    labels = list(labels)
    for label, pids in find_host_processes(labels).items():
        nspawn_pid = find_nspawn_pid(pids)
        _send_signal(
            label, [nspawn_pid] if nspawn_pid else pids, signal.SIGTERM if nspawn_pid else signal.SIGKILL
        )
    _wait_until_empty(labels, terminate_timeout_s)
    deadline = time.monotonic() + kill_timeout_s
    while (remaining := find_host_processes(labels)) and time.monotonic() < deadline:
        _kill_hosts(remaining)
        time.sleep(POLL_S)
    return sorted(remaining)


def _kill_hosts(process_ids: Mapping[str, list[int]]) -> None:
    for label, pids in process_ids.items():
        init_pid = find_init_pid(pids)
        # The kernel kills all processes of a process namespace together with its init.
        _send_signal(label, [init_pid, *pids] if init_pid else pids, signal.SIGKILL)


def _wait_until_empty(labels: list[str], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while find_host_processes(labels) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _send_signal(label: str, pids: Iterable[int], signal_number: signal.Signals) -> None:
    """Signal processes through pidfds after a check of their namespace: process ids are reused."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            handle = os.pidfd_open(pid)
            try:
                if _file_identity(Path(f"/proc/{pid}/ns/net")) == _file_identity(NAMESPACES / label):
                    signal.pidfd_send_signal(handle, signal_number)
            finally:
                os.close(handle)


def _all_process_ids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _file_identity(namespace: Path) -> tuple[int, int] | None:
    try:
        status = namespace.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _read_status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
