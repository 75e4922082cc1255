"""Read the output of evaluated programs with a limit: a program may write without end."""

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
class BoundedPipeReader:
    """The read end of a pipe: at most ``max_bytes``, of which the last ``tail_bytes`` stay in memory."""

    descriptor: int
    name: str
    max_bytes: int
    tail_bytes: int
    content: bytearray = field(default_factory=bytearray)
    total: int = 0

    def store_chunk(self, chunk: bytes) -> None:
        """Store a chunk; raise InputError over ``max_bytes``."""
        self.total += len(chunk)
        if self.total > self.max_bytes:
            raise InputError(f"{self.name} is over {self.max_bytes // MIB} MiB", where="the Pulumi program")
        self.content += chunk
        if len(self.content) > self.tail_bytes:
            del self.content[: len(self.content) - self.tail_bytes]

    def decode_stored_text(self) -> str:
        """Return the stored bytes as text; invalid UTF-8 becomes U+FFFD."""
        return self.content.decode("utf-8", errors="replace")


def read_pipes_with_time_limit(
    main: BoundedPipeReader, other_streams: Iterable[BoundedPipeReader], limit_s: float
) -> None:
    """Read until ``main`` closes, then the rest of the others; raise EnvironmentFault after ``limit_s`` seconds.

    Only trusted processes hold ``main``. A program's grandchild could keep the others open without end.
    """
    deadline = time.monotonic() + limit_s
    with selectors.DefaultSelector() as selector:
        for stream in (main, *other_streams):
            os.set_blocking(stream.descriptor, False)
            selector.register(stream.descriptor, selectors.EVENT_READ, stream)
        while main.descriptor in selector.get_map():
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise EnvironmentFault(
                    f"the Pulumi program did not end within {limit_s:g} s",
                    hint="it may be waiting for input or a network",
                )
            _read_ready(selector, remaining_s)
        while selector.get_map() and _read_ready(selector, 0):
            pass


def _read_ready(selector: selectors.BaseSelector, wait_s: float) -> bool:
    """Read once from every ready stream; return False if none is ready."""
    events = selector.select(wait_s)
    for key, _ in events:
        stream: BoundedPipeReader = key.data
        chunk = os.read(stream.descriptor, CHUNK)
        if chunk:
            stream.store_chunk(chunk)
        else:
            selector.unregister(stream.descriptor)
    return bool(events)
