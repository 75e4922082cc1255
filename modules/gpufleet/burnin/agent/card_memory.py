"""Memory of one card: patterns read back and compared, and rates; copies to the host and back."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from .card_bench import CardBench
from .card_device import GROUP_BYTES, Buffer
from .clibrary import LibraryError
from .memory_pattern import PATTERNS, SEED_FACTOR, note_faults

ADDRESS = PATTERNS["address"]
# Copies of one recording.
QUEUED = 8


def choose_chunk_bytes(bench: CardBench, requested: int) -> int:
    """Return a chunk's size within the device's limits, a whole number of workgroups."""
    return min(requested, bench.device.max_buffer_bytes) // GROUP_BYTES * GROUP_BYTES


def allocate_chunks(bench: CardBench, size: int, chunk_bytes: int) -> list[Buffer]:
    """Take memory in chunks, up to a size or until there is no more."""
    chunks: list[Buffer] = []
    for _ in range(min(size // chunk_bytes, bench.device.max_buffers)):
        try:
            chunks.append(bench.device.create_buffer(chunk_bytes))
        except LibraryError as error:
            if not bench.device.is_out_of_memory(error.code):
                raise
            break
    return chunks


class MemoryTest:
    """Chunks of device memory, what was wrong in them, and the rates in GB/s."""

    def __init__(self, bench: CardBench, chunks: list[Buffer]) -> None:
        self.bench, self.chunks = bench, chunks
        self.groups = chunks[0].size // GROUP_BYTES
        self.wrong: dict[str, int] = {}
        self.faults: list[dict[str, Any]] = []
        self.rates: dict[str, list[float]] = {"write": [], "read": [], "copy": []}

    def note_rate(self, name: str, chunk_count: int, seconds: float) -> None:
        """Keep a rate."""
        self.rates[name].append(round(chunk_count * self.chunks[0].size / max(seconds, 1e-9) / 1e9, 1))

    def fill(self, bits: tuple[int, int]) -> None:
        """Write a pattern to every chunk; a chunk's seed is its number."""
        kernel = self.bench.kernel("fill_pattern")
        with self.bench.device.record() as recording:
            for number, chunk in enumerate(self.chunks):
                recording.dispatch(kernel, self.groups, [chunk], number * SEED_FACTOR, *bits)
        self.note_rate("write", len(self.chunks), recording.seconds)

    def count_wrong(
        self, numbers: list[int], bits: tuple[int, int], seeds: list[int]
    ) -> tuple[int, int, int]:
        """Read chunks and compare them with the pattern of their seeds."""
        kernel = self.bench.kernel("verify_pattern")
        self.bench.clear_counts()
        with self.bench.device.record() as recording:
            for number in numbers:
                buffers = [self.chunks[number], self.bench.counts]
                recording.dispatch(kernel, self.groups, buffers, seeds[number] * SEED_FACTOR, *bits)
        self.seconds = recording.seconds
        return self.bench.read_counts()

    def verify(self, name: str, bits: tuple[int, int], seeds: list[int]) -> None:
        """Verify all chunks; where something is wrong, read each again to see where it is and whether it stays."""
        numbers = list(range(len(self.chunks)))
        count = self.count_wrong(numbers, bits, seeds)[0]
        self.note_rate("read", len(numbers), self.seconds)
        self.wrong[name] = self.wrong.get(name, 0) + count
        if not count:
            return
        note_faults(self.faults, name, (self.count_wrong([number], bits, seeds) for number in numbers))

    def copy_and_verify(self) -> None:
        """Copy the first half of the chunks over the second; the copies must have the originals' pattern."""
        half = len(self.chunks) // 2
        if not half:
            return
        self.fill(ADDRESS)
        kernel = self.bench.kernel("copy_vectors")
        with self.bench.device.record() as recording:
            for source, target in zip(self.chunks[:half], self.chunks[half:]):  # noqa: B905 - Python 3.9
                recording.dispatch(kernel, self.groups, [source, target])
        self.note_rate("copy", 2 * half, recording.seconds)  # a copy reads and writes each byte
        rest = list(range(2 * half, len(self.chunks)))
        self.verify("copy", ADDRESS, [*range(half), *range(half), *rest])


def work_on_memory(
    bench: CardBench, size: int, chunk_bytes: int, seconds: float, *, flips_bit: bool
) -> dict[str, Any]:
    """Test so many bytes of the device's memory for a time, but at least once."""
    chunks = allocate_chunks(bench, size, chunk_bytes)
    if not chunks:
        return {"tested_bytes": 0, "wrong_vectors": {}}
    test, passes = MemoryTest(bench, chunks), 0
    deadline = time.monotonic() + seconds
    while not passes or time.monotonic() < deadline:
        for name, bits in PATTERNS.items():
            test.fill(bits)
            if flips_bit and not passes and name == "55":
                bench.flip_bit(chunks[-1], chunk_bytes // 2)
            test.verify(name, bits, list(range(len(chunks))))
        test.copy_and_verify()
        passes += 1
    bench.device.free(*chunks)
    rates = {
        f"{name}_gb_per_s": sorted(values)[len(values) // 2] for name, values in test.rates.items() if values
    }
    return {
        "tested_bytes": len(chunks) * chunk_bytes,
        "chunk_bytes": chunk_bytes,
        "passes": passes,
        "wrong_vectors": test.wrong,
        "faults": test.faults,
        **rates,
    }


def time_copies(bench: CardBench, source: Buffer, target: Buffer, seconds: float) -> float:
    """Repeat a copy for a time; return GB/s."""
    rates: list[float] = []
    deadline = time.monotonic() + seconds
    while len(rates) < 2 or time.monotonic() < deadline:  # noqa: PLR2004 - the first one warms up
        with bench.device.record() as recording:
            for _ in range(QUEUED):
                recording.copy(source, target, source.size)
        rates.append(QUEUED * source.size / max(recording.seconds, 1e-9) / 1e9)
    return round(sorted(rates[1:])[len(rates[1:]) // 2], 2)


def work_on_copies(bench: CardBench, size: int, seconds: float, *, flips_bit: bool) -> dict[str, Any]:
    """Copy a pattern to the host and back to another place, then measure each direction."""
    device = bench.device
    source, target, host = (
        device.create_buffer(size),
        device.create_buffer(size),
        device.create_buffer(size, "host"),
    )
    groups, bits = size // GROUP_BYTES, PATTERNS["address"]
    with device.record() as recording:
        recording.dispatch(bench.kernel("fill_pattern"), groups, [source], 1, *bits)
        recording.copy(source, host, size)
    if flips_bit:
        ctypes.c_ubyte.from_address(host.address + size // 2).value ^= 1
    bench.clear_counts()
    with device.record() as recording:
        recording.copy(host, target, size)
        recording.dispatch(bench.kernel("verify_pattern"), groups, [target, bench.counts], 1, *bits)
    record: dict[str, Any] = {"bytes": size, "wrong_vectors": bench.read_counts()[0]}
    record["to_device_gb_per_s"] = time_copies(bench, host, target, seconds)
    record["to_host_gb_per_s"] = time_copies(bench, source, host, seconds)
    device.free(source, target, host)
    return record
