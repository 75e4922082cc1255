"""What evaluated programs write, read as it comes and bounded: a program may write for ever."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpufleet.errors import EnvironmentFault, InputError

KIB, MIB = 1 << 10, 1 << 20
CHUNK = 64 * KIB


@dataclass
class Stream:
    """The read end of one pipe: ``most`` bytes may come, of which the last ``kept`` stay in memory."""

    descriptor: int
    name: str
    most: int
    kept: int
    content: bytearray = field(default_factory=bytearray)
    total: int = 0

    def receive(self, chunk: bytes) -> None:
        """Keep what came; raise InputError when it is too much."""
        self.total += len(chunk)
        if self.total > self.most:
            raise InputError(f"{self.name} is over {self.most // MIB} MiB", where="the Pulumi program")
        self.content += chunk
        if len(self.content) > self.kept:
            del self.content[: len(self.content) - self.kept]

    def text(self) -> str:
        """Return what was kept as text; whatever is not UTF-8 becomes a mark."""
        return self.content.decode("utf-8", errors="replace")


def read_streams(main: Stream, others: Iterable[Stream], limit_s: float) -> None:
    """Read until ``main`` ends, then what the others still hold; raise EnvironmentFault after ``limit_s`` seconds.

    Only trusted processes hold ``main``. The others a program's grandchild could keep open for ever.
    """
    deadline = time.monotonic() + limit_s
    with selectors.DefaultSelector() as selector:
        for stream in (main, *others):
            os.set_blocking(stream.descriptor, False)
            selector.register(stream.descriptor, selectors.EVENT_READ, stream)
        while main.descriptor in selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise EnvironmentFault(
                    f"the Pulumi program did not end within {limit_s:g} s",
                    hint="it may wait for input or a network",
                )
            _drain(selector, left)
        while selector.get_map() and _drain(selector, 0):
            pass


def _drain(selector: selectors.BaseSelector, wait_s: float) -> bool:
    """Read once from every stream that has something; return False where none has."""
    ready = selector.select(wait_s)
    for key, _ in ready:
        stream: Stream = key.data
        chunk = os.read(stream.descriptor, CHUNK)
        if chunk:
            stream.receive(chunk)
        else:
            selector.unregister(stream.descriptor)
    return bool(ready)
