"""Starting and ending a rehearsal's package server.

Which processes are the server is asked of the kernel: those in the control group ``<bridge>/packages``. So no
record can be missing or stale, as with hosts.
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

from gpufleet.paths import user_cache
from gpufleet.rehearsal.packages import server
from gpufleet.rehearsal.packages.hostfiles import PORT, STAND_INS
from gpufleet.rehearsal.packages.standins import ensure_repository
from gpufleet.rehearsal.rack import apt, cgroups
from gpufleet.rehearsal.rack.shell import Say, last_line, run, write_whole

GROUP = "packages"
START_LIMIT_S = 60.0
END_LIMIT_S = 10.0
POLL_S = 0.05
# Joins the group before anything else, then becomes the server; nothing of our environment goes along.
START = """
for tree in "$@"; do
    [ -e "$tree/cgroup.procs" ] || continue
    mkdir -p "$tree/$GROUP" && echo $$ >"$tree/$GROUP/cgroup.procs"
done
exec setsid --fork env -i PATH="$PATH" LC_ALL=C "$PYTHON" -I -S "$PROGRAM" "$CONFIG" </dev/null >"$LOG" 2>&1
"""


def ensure(home: Path, bridge: str, addresses: Iterable[str], suites: Iterable[str], say: Say) -> bool:
    """Have a server on these addresses; where that can't be, say why and return False: hosts boot all the same."""
    folder = home.resolve() / GROUP
    facts = _facts(sorted(addresses), sorted(suites))
    text = json.dumps(facts, indent=1) + "\n"
    config = folder / "config.json"
    if running(bridge) and config.is_file() and config.read_text() == text:
        return True
    end(home, bridge)
    write_whole(config, text)
    log = folder / "server.log"
    variables = {
        "GROUP": f"{bridge}/{GROUP}",
        "PYTHON": sys.executable,
        "PROGRAM": str(Path(server.__file__)),
    }
    variables |= {"CONFIG": str(config), "LOG": str(log)}
    words = [f"{name}={value}" for name, value in variables.items()]
    run(["env", *words, "sh", "-c", START, "start", *map(str, cgroups.TREES)])
    if _answers(facts["addresses"], bridge):
        return True
    said = last_line(log.read_text(errors="replace")) if log.exists() else "nothing"
    say(f"packages: hosts have none to install, the server did not start: {said}")
    return False


def running(bridge: str) -> list[int]:
    """Return the server's processes, as the kernel has them."""
    pids: set[int] = set()
    for tree in cgroups.TREES:
        with contextlib.suppress(OSError):
            pids |= set(map(int, (tree / bridge / GROUP / "cgroup.procs").read_text().split()))
    return sorted(pids)


def end(home: Path, bridge: str) -> None:
    """End the server and remove what it wrote; what it fetched stays in the user's cache. Safe to repeat."""
    shutil.rmtree(
        home / GROUP, ignore_errors=True
    )  # a server on its way up ends when its config is not there
    deadline = time.monotonic() + END_LIMIT_S
    while (pids := running(bridge)) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # it holds nothing that is not written whole
        time.sleep(POLL_S)
    cgroups.remove(f"{bridge}/{GROUP}")


def _facts(addresses: list[str], suites: list[str]) -> dict[str, Any]:
    archives = [archive for suite in suites for archive in apt.archives(suite, apt.system_sources())]
    return {
        "addresses": addresses,
        "port": PORT,
        "cache": str(user_cache() / GROUP / "archives"),
        "proxy": apt.proxy(),
        "archives": {archive.name: archive.uri for archive in archives},
        "folders": {STAND_INS: str(ensure_repository())},
        "program": Path(server.__file__).stat().st_mtime_ns,  # a changed server starts anew
    }


def _answers(addresses: list[str], bridge: str) -> bool:
    """Wait until the server greets on every address, or is no more."""
    deadline = time.monotonic() + START_LIMIT_S
    waiting = list(addresses)
    while waiting and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((waiting[0], PORT), timeout=1):
            waiting.pop(0)
            continue
        if not running(bridge):
            break
        time.sleep(POLL_S)
    return not waiting and bool(running(bridge))
