"""What a card's test needs of it, whichever API runs its kernels: buffers, kernels by name, recorded commands."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Protocol, Sequence  # noqa: UP035 - Python 3.9 runs this

from .kernel_values import THREADS, VECTORS_PER_THREAD

# A workgroup's share of a linear pass.
GROUP_VECTORS = THREADS * VECTORS_PER_THREAD
GROUP_BYTES = GROUP_VECTORS * 16
# How operands are made: any 32 bits, integers from -8 to 7 as floats, floats with random mantissas.
ANY_WORDS, SMALL_INTEGERS, RANDOM_FLOATS = 0, 1, 2
# A workgroup computes a square of this side, each thread a square of WIDTH; the sums advance DEPTH at a time.
TILE, DEPTH, WIDTH = 64, 16, 4
# One word more than the tile, so that a column's words are in different banks.
STRIDE = TILE + 1
# Every kernel has the same interface: at most so many buffers, then so many 32-bit numbers.
BINDINGS, NUMBERS = 3, 4
# The kernel's driver resets an AMD GPU after 10 s without progress; one recording is made to last far less.
WAIT_SECONDS = 30.0


@dataclass
class Buffer:
    """A buffer with memory of its own; ``address`` is where the host sees it."""

    handle: int
    memory: int
    size: int
    address: int = 0


class Recording(Protocol):
    """Commands that run one after the other when the block ends; ``seconds`` is then the time they took."""

    seconds: float

    def __enter__(self) -> Recording:  # noqa: PYI034 - Python 3.9 has no Self
        """Begin."""

    def __exit__(self, kind: object, *details: object) -> None:
        """Run what was recorded and wait for it, at most WAIT_SECONDS."""

    def dispatch(self, kernel: int, groups: int, buffers: Sequence[Buffer], *numbers: int) -> None:
        """Run a kernel on buffers with numbers."""

    def copy(
        self, source: Buffer, target: Buffer, size: int, *, source_offset: int = 0, target_offset: int = 0
    ) -> None:
        """Copy between buffers."""


class Card(Protocol):
    """A device that is open."""

    max_buffer_bytes: int
    max_buffers: int

    def free_bytes(self) -> int:
        """Return how much of the device's own memory is free."""

    def create_buffer(self, size: int, place: str = "device") -> Buffer:
        """Return a buffer in memory of the ``device`` or the ``host``."""

    def free(self, *buffers: Buffer) -> None:
        """Give buffers and their memory back."""

    def load_kernel(self, name: str) -> int:
        """Compile a kernel."""

    def record(self) -> Recording:
        """Return a new recording."""

    def is_out_of_memory(self, code: int | None) -> bool:
        """Return whether an error's code says that there is no more memory."""


def read_bytes(card: Card, buffer: Buffer, offset: int, size: int) -> bytes:
    """Copy bytes from the device."""
    staging = card.create_buffer(size, "host")
    with card.record() as recording:
        recording.copy(buffer, staging, size, source_offset=offset)
    data = ctypes.string_at(staging.address, size)
    card.free(staging)
    return data


def write_bytes(card: Card, buffer: Buffer, offset: int, data: bytes) -> None:
    """Copy bytes to the device."""
    staging = card.create_buffer(len(data), "host")
    ctypes.memmove(staging.address, data, len(data))
    with card.record() as recording:
        recording.copy(staging, buffer, len(data), target_offset=offset)
    card.free(staging)
