"""Start and stop a rehearsal's package server.

Its processes are those in the control group ``<bridge>/packages``. So no record can be missing or stale.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpufleet.paths import user_cache_folder
from gpufleet.rehearsal.packages import server
from gpufleet.rehearsal.packages.apt_config import FAKE_REPOSITORY, PORT
from gpufleet.rehearsal.packages.repository import ensure_fake_repository
from gpufleet.rehearsal.rack import apt_sources, cgroups
from gpufleet.rehearsal.rack.shell import (
    Reporter,
    find_last_nonblank_line,
    run_command,
    write_file_atomically,
)

GROUP = "packages"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.05
# Joins the control group first, then execs the server; our environment is not passed on.
START = """
for tree in "$@"; do
    [ -e "$tree/cgroup.procs" ] || continue
    mkdir -p "$tree/$GROUP" && echo $$ >"$tree/$GROUP/cgroup.procs"
done
exec setsid --fork env -i PATH="$PATH" LC_ALL=C "$PYTHON" -I -S "$PROGRAM" "$CONFIG" </dev/null >"$LOG" 2>&1
"""


def start_package_server(
    home: Path, bridge: str, addresses: Iterable[str], suites: Iterable[str], report: Reporter
) -> bool:
    """Run a server on these addresses; if it does not start, report why and return False: hosts boot without it."""
    folder = home.resolve() / GROUP
    settings = _server_settings(sorted(addresses), sorted(suites))
    text = json.dumps(settings, indent=1) + "\n"
    config = folder / "config.json"
    if find_package_server_processes(bridge) and config.is_file() and config.read_text() == text:
        return True
    stop_package_server(home, bridge)
    write_file_atomically(config, text)
    log = folder / "server.log"
    variables = {
        "GROUP": f"{bridge}/{GROUP}",
        "PYTHON": sys.executable,
        "PROGRAM": str(Path(server.__file__)),
    }
    variables |= {"CONFIG": str(config), "LOG": str(log)}
    assignments = [f"{name}={value}" for name, value in variables.items()]
    run_command(["env", *assignments, "sh", "-c", START, "start", *map(str, cgroups.TREES)])
    if _wait_until_listening(settings["addresses"], bridge):
        return True
    last_output = find_last_nonblank_line(log.read_text(errors="replace")) if log.exists() else "nothing"
    report(f"the package server did not start, so hosts cannot install packages: {last_output}")
    return False


def find_package_server_processes(bridge: str) -> list[int]:
    """Return the ids of the server's processes."""
    pids: set[int] = set()
    for tree in cgroups.TREES:
        with contextlib.suppress(OSError):
            pids |= set(map(int, (tree / bridge / GROUP / "cgroup.procs").read_text().split()))
    return sorted(pids)


def stop_package_server(home: Path, bridge: str) -> None:
    """Stop the server and remove its files; its downloads stay in the user's cache. Can be repeated."""
    shutil.rmtree(home / GROUP, ignore_errors=True)  # a starting server ends when its config is missing
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while (pids := find_package_server_processes(bridge)) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # it writes every file atomically
        time.sleep(POLL_S)
    cgroups.remove_cgroup(f"{bridge}/{GROUP}")


def _server_settings(addresses: list[str], suites: list[str]) -> dict[str, Any]:
    archives = [
        archive
        for suite in suites
        for archive in apt_sources.list_suite_archives(suite, apt_sources.read_suite_apt_sources(suite))
    ]
    return {
        "addresses": addresses,
        "port": PORT,
        "cache": str(user_cache_folder() / GROUP / "archives"),
        "proxy": apt_sources.find_apt_proxy(),
        "archives": {archive.name: archive.uri for archive in archives},
        "folders": {FAKE_REPOSITORY: str(ensure_fake_repository())},
        "program": Path(server.__file__).stat().st_mtime_ns,  # a changed program restarts the server
    }


def _wait_until_listening(addresses: list[str], bridge: str) -> bool:
    """Wait until the server listens on every address or has ended; return whether it listens."""
    deadline = time.monotonic() + START_TIMEOUT_S
    pending = list(addresses)
    while pending and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((pending[0], PORT), timeout=1):
            pending.pop(0)
            continue
        if not find_package_server_processes(bridge):
            break
        time.sleep(POLL_S)
    return not pending and bool(find_package_server_processes(bridge))
