"""GPU arithmetic under load: matrices on tensor cores and chains of FMAs, every result checked.

1. Small integers: C w = A (B w) holds exactly in every row, and cuBLAS, where present, gives the same bits.
2. Random mantissas for some seconds: every result must equal the first in every bit, while sensors are read.
3. Chaotic orbits in single and double precision: every thread must end where IEEE 754 says.
"""

from __future__ import annotations

import struct
import time
from ctypes import c_uint32, c_uint64
from typing import Any, NamedTuple

from ...agent.clibrary import LibraryError
from ...agent.cublas import open_cublas
from ...agent.cuda_driver import Stopwatch
from ...agent.cuda_kernels import MatmulKernel, list_matmul_kernels
from ...agent.gpu_device import GpuWorkbench, run_on_every_gpu
from ...agent.host import HostAccess, RawCheckResult
from ...agent.kernel_values import BLOCK_BYTES, CHAINS, THREADS, compute_orbits
from ...agent.product_record import build_product_record
from ...agent.sensor_series import SensorRecorder

SEED_A, SEED_B = 0x10000000, 0x50000000
MAX_BATCH = 8
# A context, a framework's leftovers and the display need room too.
RESERVED_BYTES = 1 << 29
ORBIT_STEPS, ORBIT_BLOCKS_PER_MULTIPROCESSOR = 2000, 8
SENSOR_SECONDS = 0.25


class Operands(NamedTuple):
    """Square matrices on the device: A, B, and what results are compared with."""

    a: int
    b: int
    reference: int
    results: tuple[int, ...]
    size: int

    @property
    def result_bytes(self) -> int:
        """Bytes of one result."""
        return self.size * self.size * 4


class Multiplier:
    """A compiled matrix kernel and its arguments."""

    def __init__(self, bench: GpuWorkbench, kernel: MatmulKernel, operands: Operands) -> None:
        self.bench, self.spec, self.operands = bench, kernel, operands
        device, size = bench.device, operands.size
        module, self.compile_s = device.load_module(kernel.ptx)
        self.kernel = device.get_kernel(module, kernel.name, kernel.threads, kernel.shared_bytes)
        self.grid = (size // kernel.rows, size // kernel.columns)
        self.inputs: list[Any] = [c_uint64(operands.a), c_uint64(operands.b)]
        if kernel.uses_maps:
            kind = "BFLOAT16" if kernel.kind == "bf16" else "FLOAT16"
            self.inputs = [
                device.encode_matrix_map(address, size, size, (kernel.depth, rows), kind)
                for address, rows in ((operands.a, kernel.rows), (operands.b, kernel.columns))
            ]

    def multiply(self, result: int) -> None:
        """Queue one product."""
        rows, columns = self.grid
        self.bench.device.launch(
            self.kernel, rows * columns, *self.inputs, c_uint64(result),
            c_uint32(rows), c_uint32(columns), c_uint32(self.operands.size),
        )  # fmt: skip


def fill_operands(bench: GpuWorkbench, operands: Operands, kind: str, *, is_random: bool) -> None:
    """Fill both matrices with small integers or with random mantissas."""
    blocks = operands.size * operands.size // 2 // THREADS
    for address, seed in ((operands.a, SEED_A), (operands.b, SEED_B)):
        bench.launch(
            f"fill_operands_{kind}", blocks, c_uint64(address), c_uint32(seed), c_uint32(int(is_random))
        )


def count_wrong_rows(bench: GpuWorkbench, operands: Operands, result: int) -> dict[str, int]:
    """Return how many rows of a product of small integers are wrong, by exact weighed sums."""
    device, size = bench.device, operands.size
    weights, expected, sums = (device.allocate(size * 4) for _ in range(3))
    blocks = -(-size // THREADS)
    number = c_uint32(size)
    device.clear(sums, size * 4)
    bench.clear_counts()
    bench.launch("weigh_b", blocks, c_uint64(weights), number, number, c_uint32(SEED_B))
    bench.launch("weigh_a", blocks, c_uint64(expected), c_uint64(weights), number, number, c_uint32(SEED_A))
    bench.launch("weigh_c", size, c_uint64(result), c_uint64(sums), c_uint64(bench.counts), number)
    device.synchronize()
    left, right = (struct.unpack(f"<{size}I", device.read(place, size * 4)) for place in (expected, sums))
    wrong = sum(left[row] != right[row] for row in range(size))
    fractions = bench.read_counts()[0]
    device.free(weights, expected, sums)
    return {"rows": size, "wrong_rows": wrong, "fractions": fractions}


def compare_results(bench: GpuWorkbench, operands: Operands, result: int) -> None:
    """Queue the comparison of a result with the reference; the counts collect what differs."""
    bench.launch(
        "compare_words", operands.result_bytes // BLOCK_BYTES,
        c_uint64(operands.reference), c_uint64(result), c_uint64(bench.counts),
    )  # fmt: skip


def sum_words(bench: GpuWorkbench, address: int, size: int) -> str:
    """Return a checksum of device memory: equal GPUs must have equal ones."""
    bench.device.write(bench.counts, bytes(24))
    bench.launch("sum_words", size // BLOCK_BYTES, c_uint64(address), c_uint64(bench.counts))
    bench.device.synchronize()
    return f"{bench.read_counts()[0]:016x}"


def compare_with_cublas(bench: GpuWorkbench, operands: Operands, kind: str) -> dict[str, Any]:
    """Let cuBLAS multiply the same integers, where it is installed: every bit must be the same."""
    cublas, reason = open_cublas()
    if cublas is None:
        return {"ran": False, "reason": reason[:300]}
    watch, result = Stopwatch(bench.device), operands.results[0]
    try:
        cublas.multiply(kind, operands.a, operands.b, result, operands.size)
        watch.start()
        for _ in range(4):
            cublas.multiply(kind, operands.a, operands.b, result, operands.size)
        seconds = watch.stop() / 4
    except LibraryError as error:
        return {"ran": False, "reason": str(error)}
    bench.clear_counts()
    compare_results(bench, operands, result)
    bench.device.synchronize()
    return {
        "ran": True,
        "version": cublas.read_version(),
        "different_vectors": bench.read_counts()[0],
        "tflops": compute_tflops(operands.size, seconds),
    }


def compute_tflops(size: int, seconds: float) -> float:
    """Return the rate of one square product."""
    return round(2 * size**3 / seconds / 1e12, 1)


def flip_bit(bench: GpuWorkbench, address: int) -> None:
    """Flip one bit of a result: the drill that shows that a wrong bit is found."""
    (word,) = struct.unpack("<I", bench.device.read(address, 4))
    bench.device.write(address, struct.pack("<I", word ^ 1))


def repeat_products(
    bench: GpuWorkbench, multiplier: Multiplier, seconds: float, *, flips_bit: bool
) -> dict[str, Any]:
    """Multiply the same operands again and again; compare every result with the first, bit by bit."""
    operands, device, results = multiplier.operands, bench.device, multiplier.operands.results
    multiplier.multiply(operands.reference)
    device.synchronize()
    bench.clear_counts()
    watch, rates, runs = Stopwatch(device), [], 0
    deadline = time.monotonic() + seconds
    while not runs or time.monotonic() < deadline:
        watch.start()
        for result in results:
            multiplier.multiply(result)
        rates.append(compute_tflops(operands.size, watch.stop() / len(results)))
        if flips_bit and not runs:
            flip_bit(bench, results[-1] + operands.result_bytes // 2)
        for result in results:
            compare_results(bench, operands, result)
        runs += len(results)
    device.synchronize()
    record = build_product_record(runs, bench.read_counts(), "tflops", rates)
    return {**record, "checksum": sum_words(bench, operands.reference, operands.result_bytes)}


def run_kernel(
    bench: GpuWorkbench, kernel: MatmulKernel, operands: Operands, host: HostAccess, seconds: float
) -> dict[str, Any]:
    """Check one matrix kernel exactly, then run it for its time."""
    multiplier = Multiplier(bench, kernel, operands)
    record: dict[str, Any] = {
        "kernel": kernel.name, "kind": kernel.kind, "size": operands.size, "compile_s": round(multiplier.compile_s, 3),
    }  # fmt: skip
    fill_operands(bench, operands, kernel.kind, is_random=False)
    multiplier.multiply(operands.reference)
    bench.device.synchronize()
    record["exact"] = count_wrong_rows(bench, operands, operands.reference)
    if host.get_parameter("gpu_cublas", True):
        record["cublas"] = compare_with_cublas(bench, operands, kernel.kind)
    fill_operands(bench, operands, kernel.kind, is_random=True)
    flips_bit = host.get_parameter("gpu_flip_bit", False)
    record.update(repeat_products(bench, multiplier, seconds, flips_bit=flips_bit))
    return record


def follow_orbits(bench: GpuWorkbench, kind: str) -> dict[str, Any]:
    """Run chains of FMAs on every thread and compare each end with the exact one."""
    device = bench.device
    starts, ends = compute_orbits(kind, ORBIT_STEPS)
    places = [device.upload(data) for data in (starts, ends)]
    blocks = (
        device.read_attribute("CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT") * ORBIT_BLOCKS_PER_MULTIPROCESSOR
    )
    arguments = (*map(c_uint64, places), c_uint64(bench.counts), c_uint32(ORBIT_STEPS))
    bench.clear_counts()
    bench.launch(f"orbit_{kind}", blocks, *arguments)
    device.synchronize()
    watch = Stopwatch(device)
    watch.start()
    bench.launch(f"orbit_{kind}", blocks, *arguments)
    seconds = watch.stop()
    device.free(*places)
    work = 2 * CHAINS * ORBIT_STEPS * blocks * THREADS
    return {
        "steps": ORBIT_STEPS,
        "threads": blocks * THREADS,
        "wrong": bench.read_counts()[0],
        "tflops": round(work / seconds / 1e12, 2),
    }


def choose_size(bench: GpuWorkbench, requested: int) -> tuple[int, int]:
    """Return the matrices' size and how many results fit beside them: the largest that leaves room for two."""
    size, free = requested, bench.device.free_bytes() - RESERVED_BYTES
    while size > 256 and free < size * size * 16:  # noqa: PLR2004 - the smallest size that tiles
        size //= 2
    count = (free - size * size * 8) // (size * size * 4)
    return size, max(1, min(MAX_BATCH, count))


def work_on_gpu(bench: GpuWorkbench, host: HostAccess) -> dict[str, Any]:
    """Do all of the check on one GPU."""
    device = bench.device
    size, count = choose_size(bench, host.get_parameter("gpu_size", 8192))
    a, b, reference = (device.allocate(size * size * width) for width in (2, 2, 4))
    results = tuple(device.allocate(size * size * 4) for _ in range(count))
    operands = Operands(a, b, reference, results, size)
    kernels, missing = list_matmul_kernels(device.capability, host.get_parameter("gpu_kernels", ""))
    record = {**bench.describe(), "batch": count, "matmul": [], "matmul_missing": missing}
    with SensorRecorder(bench.sensors, SENSOR_SECONDS) as recorder:
        for kernel in kernels:
            seconds = host.get_parameter("gpu_seconds", 10.0) / len(kernels)
            record["matmul"].append(run_kernel(bench, kernel, operands, host, seconds))
    record["series"] = recorder.build_record()
    record["orbits"] = {kind: follow_orbits(bench, kind) for kind in ("f32", "f64")}
    return {**record, "errors_after": bench.read_errors()}


def measure_host(host: HostAccess) -> RawCheckResult:
    """Load every GPU at once."""
    seconds = host.get_parameter("gpu_seconds", 10.0)
    return run_on_every_gpu(host, lambda bench: work_on_gpu(bench, host), 3 * seconds + 120)
