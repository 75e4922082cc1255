"""Finding and ending what runs inside hosts.

A host and all that belongs to it (its launcher, systemd-nspawn, its own systemd and everything below) live in
the host's network namespace. So who is in the namespace is asked of the kernel each time: no record can be
missing, stale or point to a process that has since got the same number.
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


def inside(labels: Iterable[str]) -> dict[str, list[int]]:
    """Return the processes inside each of the named network namespaces."""
    names = {_identity(NAMESPACES / label): label for label in labels if (NAMESPACES / label).exists()}
    found: dict[str, list[int]] = defaultdict(list)
    for pid in _pids() if names else []:
        identity = _identity(Path(f"/proc/{pid}/ns/net"))
        if identity in names:
            found[names[identity]].append(pid)
    return dict(found)


def leader(pids: Iterable[int]) -> int | None:
    """Return the first process of the host itself: number 1 in a process namespace of its own."""
    for pid in pids:
        numbers = _status(pid).get("NSpid", "").split()
        if len(numbers) > 1 and numbers[-1] == "1":
            return pid
    return None


def launcher(pids: Iterable[int]) -> int | None:
    """Return the systemd-nspawn that runs the host."""
    return next((pid for pid in pids if _status(pid).get("Name") == "systemd-nspawn"), None)


def end(labels: Iterable[str], *, polite_s: float = 3, forceful_s: float = 10) -> list[str]:
    """End everything inside the namespaces, asking first; return the labels where something remains."""
    labels = list(labels)
    for label, pids in inside(labels).items():
        polite = launcher(pids)
        _signal(label, [polite] if polite else pids, signal.SIGTERM if polite else signal.SIGKILL)
    _wait_until_empty(labels, polite_s)
    deadline = time.monotonic() + forceful_s
    while (left := inside(labels)) and time.monotonic() < deadline:
        _kill(left)
        time.sleep(POLL_S)
    return sorted(left)


def _kill(left: Mapping[str, list[int]]) -> None:
    for label, pids in left.items():
        first = leader(pids)
        # With the first process of its namespace the kernel ends all others in it.
        _signal(label, [first, *pids] if first else pids, signal.SIGKILL)


def _wait_until_empty(labels: list[str], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while inside(labels) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _signal(label: str, pids: Iterable[int], number: signal.Signals) -> None:
    """Signal processes through handles, checked to be still inside: a number may have passed to a stranger."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            handle = os.pidfd_open(pid)
            try:
                if _identity(Path(f"/proc/{pid}/ns/net")) == _identity(NAMESPACES / label):
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _identity(namespace: Path) -> tuple[int, int] | None:
    try:
        found = namespace.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
