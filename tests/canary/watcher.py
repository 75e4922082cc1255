"""Sample the process list during a job: no command line and no environment may contain a secret."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Self

from canary.search import Hit, Search

PAUSE_SECONDS = 0.02
# A program that somebody else wrote, though it runs here. What runs in another process namespace is a host's or a
# sandbox's: the operator's environment is not theirs either.
STRANGER = b"cost/inputs/program/child.py"


class Watcher:
    """Watches from its start to its end; ``hits`` are its findings."""

    def __init__(self, search: Search) -> None:
        self.search, self.hits, self.samples = search, set[Hit](), 0
        self.strangers: set[str] = set()
        self._seen: set[tuple[str, bytes]] = set()  # processes that still run what was searched before
        self._home = Path("/proc/self/ns/pid").readlink()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(PAUSE_SECONDS):
            self.samples += 1
            for entry in os.scandir("/proc"):
                if entry.name.isdigit() and int(entry.name) != os.getpid():
                    with contextlib.suppress(OSError):
                        self._look(Path(entry.path))

    def _look(self, process: Path) -> None:
        command = (process / "cmdline").read_bytes()
        if (process.name, command) in self._seen:
            return
        for name in self.search.names(command):
            self.hits.add(Hit(name, f"the command line {_text(command)}"))
        abroad = (process / "ns" / "pid").readlink() != self._home
        if abroad or STRANGER in command:
            self.strangers.add("a host or sandbox" if abroad else STRANGER.decode())
            for name in self.search.names((process / "environ").read_bytes()):
                self.hits.add(Hit(name, f"the environment of {_text(command)}"))
        self._seen.add((process.name, command))


def _text(command: bytes) -> str:
    return command.replace(b"\0", b" ").decode(errors="replace")[:160]
