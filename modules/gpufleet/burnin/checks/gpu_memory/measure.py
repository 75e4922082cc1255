"""GPU memory: patterns over nearly all that is free, each word read back and compared; read, write and copy rates."""

from __future__ import annotations

import time
from ctypes import c_uint64
from typing import Any

from ...agent.clibrary import LibraryError
from ...agent.cuda_driver import CONSTANTS, Stopwatch
from ...agent.gpu_device import ADDRESS_BITS, GpuWorkbench, run_on_every_gpu
from ...agent.host import HostAccess, RawCheckResult
from ...agent.kernel_values import BLOCK_BYTES
from ...agent.memory_pattern import PATTERNS, SEED_FACTOR, note_faults
from ...agent.sensor_series import SensorRecorder

CHUNK_BYTES = 1 << 30
SENSOR_SECONDS = 0.25


class MemoryTest:
    """Chunks of device memory with what was found wrong in them, and the rates."""

    def __init__(self, bench: GpuWorkbench, chunks: list[int], chunk_bytes: int) -> None:
        self.bench, self.chunks, self.chunk_bytes = bench, chunks, chunk_bytes
        self.blocks = chunk_bytes // BLOCK_BYTES
        self.watch = Stopwatch(bench.device)
        self.wrong: dict[str, int] = {}
        self.faults: list[dict[str, Any]] = []
        self.rates: dict[str, list[float]] = {"write": [], "read": [], "copy": []}

    def note_rate(self, name: str, chunk_count: int, seconds: float) -> None:
        """Keep a rate in GB/s."""
        self.rates[name].append(round(chunk_count * self.chunk_bytes / seconds / 1e9, 1))

    def fill(self, bits: tuple[int, int]) -> None:
        """Write a pattern to every chunk; a chunk's seed is its number."""
        self.watch.start()
        for seed, chunk in enumerate(self.chunks):
            self.bench.fill_pattern(chunk, self.chunk_bytes, seed * SEED_FACTOR, bits)
        self.note_rate("write", len(self.chunks), self.watch.stop())

    def verify(self, name: str, bits: tuple[int, int], seeds: list[int]) -> None:
        """Read every chunk and compare it with the pattern of its seed."""
        self.bench.clear_counts()
        self.watch.start()
        for seed, chunk in zip(seeds, self.chunks):  # noqa: B905 - Python 3.9
            self.bench.verify_pattern(chunk, self.chunk_bytes, seed * SEED_FACTOR, bits)
        self.note_rate("read", len(self.chunks), self.watch.stop())
        count = self.bench.read_counts()[0]
        self.wrong[name] = self.wrong.get(name, 0) + count
        if count:
            chunk_counts = (self._recount(number, bits, seeds) for number in range(len(self.chunks)))
            note_faults(self.faults, name, chunk_counts)

    def _recount(self, number: int, bits: tuple[int, int], seeds: list[int]) -> tuple[int, int, int]:
        """Read one chunk again."""
        self.bench.clear_counts()
        self.bench.verify_pattern(self.chunks[number], self.chunk_bytes, seeds[number] * SEED_FACTOR, bits)
        self.bench.device.synchronize()
        return self.bench.read_counts()

    def copy_and_verify(self) -> None:
        """Copy each chunk of the first half over one of the second; the copies must hold the originals' pattern."""
        half = len(self.chunks) // 2
        if not half:
            return
        self.fill(ADDRESS_BITS)
        self.watch.start()
        for source, target in zip(self.chunks[:half], self.chunks[half:]):  # noqa: B905 - Python 3.9
            self.bench.launch("copy_vectors", self.blocks, c_uint64(source), c_uint64(target))
        # A copy reads and writes each byte.
        self.note_rate("copy", 2 * half, self.watch.stop())
        rest = list(range(2 * half, len(self.chunks)))
        self.verify("copy", ADDRESS_BITS, [*range(half), *range(half), *rest])

    def flip_bit(self) -> None:
        """Flip one bit: the drill that shows that a wrong bit is found."""
        address = self.chunks[-1] + self.chunk_bytes // 2
        byte = self.bench.device.read(address, 1)[0]
        self.bench.device.write(address, bytes([byte ^ 4]))


def allocate_chunks(bench: GpuWorkbench, share: float, chunk_bytes: int) -> list[int]:
    """Take memory in chunks up to a share of what is free."""
    chunks: list[int] = []
    for _ in range(int(bench.device.free_bytes() * share) // chunk_bytes):
        try:
            chunks.append(bench.device.allocate(chunk_bytes))
        except LibraryError as error:
            if error.code != CONSTANTS["CUDA_ERROR_OUT_OF_MEMORY"]:
                raise
            break
    return chunks


def work_on_gpu(bench: GpuWorkbench, host: HostAccess) -> dict[str, Any]:
    """Do all of the check on one GPU."""
    chunk_bytes = host.get_parameter("gpu_chunk_mib", CHUNK_BYTES >> 20) << 20
    free = bench.device.free_bytes()
    chunks = allocate_chunks(bench, host.get_parameter("gpu_memory_share", 0.95), chunk_bytes)
    record: dict[str, Any] = {
        **bench.describe(),
        "free_bytes": free,
        "tested_bytes": len(chunks) * chunk_bytes,
    }
    if not chunks:
        return {**record, "busy": f"only {free >> 20} MiB of GPU memory are free"}
    test, passes = MemoryTest(bench, chunks, chunk_bytes), 0
    flips_bit = host.get_parameter("gpu_flip_bit", False)
    deadline = time.monotonic() + host.get_parameter("gpu_memory_seconds", 5.0)
    with SensorRecorder(bench.sensors, SENSOR_SECONDS) as recorder:
        while not passes or time.monotonic() < deadline:
            for name, bits in PATTERNS.items():
                test.fill(bits)
                if flips_bit and not passes and name == "55":
                    test.flip_bit()
                test.verify(name, bits, list(range(len(chunks))))
            test.copy_and_verify()
            passes += 1
    rates = {
        f"{name}_gb_per_s": sorted(values)[len(values) // 2] for name, values in test.rates.items() if values
    }
    return {
        **record,
        "passes": passes,
        "wrong_vectors": test.wrong,
        "faults": test.faults,
        **rates,
        "slowest_gb_per_s": {name: min(values) for name, values in test.rates.items() if values},
        "series": recorder.build_record(),
        "errors_after": bench.read_errors(),
    }


def measure_host(host: HostAccess) -> RawCheckResult:
    """Test every GPU's memory at once."""
    seconds = host.get_parameter("gpu_memory_seconds", 5.0)
    return run_on_every_gpu(host, lambda bench: work_on_gpu(bench, host), 3 * seconds + 120)
