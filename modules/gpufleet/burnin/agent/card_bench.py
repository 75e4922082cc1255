"""Matrix products on one card: known answers, then random operands repeated and compared bit by bit."""

from __future__ import annotations

import struct
import time
from typing import Any

from .card_device import (
    ANY_WORDS,
    GROUP_BYTES,
    GROUP_VECTORS,
    RANDOM_FLOATS,
    SMALL_INTEGERS,
    TILE,
    Buffer,
    Card,
    read_bytes,
    write_bytes,
)
from .kernel_values import THREADS, mix
from .product_record import build_product_record

SEED_A, SEED_B = 0x10000000, 0x50000000
# What counts hold before a comparison: how many differ, the first place, which bits.
NO_ERRORS = struct.pack("<4I", 0, 0xFFFFFFFF, 0, 0)
KINDS = ("u32", "f32")
SMALLEST, LARGEST = 256, 4096
# One product takes less, also on a slow device: its queue stays far from the kernel's time limit.
PRODUCT_SECONDS, MAX_BATCH = 0.25, 8
SAMPLES = 8
WORD = 0xFFFFFFFF


class CardBench:
    """A card with its kernels and a place for their counts."""

    def __init__(self, device: Card) -> None:
        self.device = device
        self.kernels: dict[str, int] = {}
        self.compile_s = 0.0
        self.counts = device.create_buffer(len(NO_ERRORS))

    def kernel(self, name: str) -> int:
        """Return a kernel, compiled when it is first needed."""
        if name not in self.kernels:
            started = time.perf_counter()
            self.kernels[name] = self.device.load_kernel(name)
            self.compile_s += time.perf_counter() - started
        return self.kernels[name]

    def clear_counts(self) -> None:
        """Set the counts to no error."""
        write_bytes(self.device, self.counts, 0, NO_ERRORS)

    def read_counts(self) -> tuple[int, int, int]:
        """Return what was wrong since: how many vectors, the first one, and which bits."""
        count, first, bits = struct.unpack_from(
            "<3I", read_bytes(self.device, self.counts, 0, len(NO_ERRORS))
        )
        return count, first, bits

    def flip_bit(self, buffer: Buffer, offset: int) -> None:
        """Flip one bit: the drill that shows that a wrong bit is found."""
        (word,) = struct.unpack("<I", read_bytes(self.device, buffer, offset, 4))
        write_bytes(self.device, buffer, offset, struct.pack("<I", word ^ 1))

    def sum_buffer(self, buffer: Buffer) -> str:
        """Return a checksum of device memory: equal GPUs must have equal ones."""
        write_bytes(self.device, self.counts, 0, bytes(16))
        with self.device.record() as recording:
            recording.dispatch(self.kernel("sum_vectors"), buffer.size // GROUP_BYTES, [buffer, self.counts])
        return f"{self.read_counts()[0]:08x}"


class Products:
    """Square matrices A and B of one size, a first result and others that are compared with it."""

    def __init__(self, bench: CardBench, size: int, batch: int) -> None:
        self.bench, self.device, self.size = bench, bench.device, size
        self.a, self.b, self.reference, *self.results = (
            self.device.create_buffer(size * size * 4) for _ in range(3 + batch)
        )

    def free(self) -> None:
        """Give the memory back."""
        self.device.free(self.a, self.b, self.reference, *self.results)

    def fill(self, mode: int) -> None:
        """Make the operands."""
        groups = self.size * self.size // GROUP_VECTORS
        with self.device.record() as recording:
            for matrix, seed in ((self.a, SEED_A), (self.b, SEED_B)):
                recording.dispatch(self.bench.kernel("fill_operands"), groups, [matrix], seed, mode)

    def multiply(self, kind: str, *results: Buffer) -> float:
        """Compute each result anew; return the seconds of one product."""
        tiles, kernel = self.size // TILE, self.bench.kernel(f"multiply_{kind}")
        with self.device.record() as recording:
            for result in results:
                recording.dispatch(kernel, tiles * tiles, [self.a, self.b, result], self.size, tiles)
        return recording.seconds / len(results)

    def compare(self) -> None:
        """Compare every result with the first one; the counts collect what differs."""
        kernel, groups = self.bench.kernel("compare_vectors"), self.reference.size // GROUP_BYTES
        with self.device.record() as recording:
            for result in self.results:
                recording.dispatch(kernel, groups, [self.reference, result, self.bench.counts])

    def count_wrong_rows(self, kind: str) -> dict[str, int]:
        """Return how many rows of a product of integers are wrong: C w = A (B w) holds exactly in every row."""
        device, size, bench = self.device, self.size, self.bench
        weights, expected, sums = (device.create_buffer(size * 4) for _ in range(3))
        groups = -(-size // THREADS)
        bench.clear_counts()
        with device.record() as recording:
            recording.dispatch(bench.kernel(f"weigh_b_{kind}"), groups, [weights], size, SEED_B)
            recording.dispatch(bench.kernel(f"weigh_a_{kind}"), groups, [weights, expected], size, SEED_A)
            recording.dispatch(
                bench.kernel(f"weigh_c_{kind}"), groups, [self.reference, sums, bench.counts], size
            )
        left, right = (
            struct.unpack(f"<{size}I", read_bytes(device, place, 0, size * 4)) for place in (expected, sums)
        )
        device.free(weights, expected, sums)
        wrong = sum(left[row] != right[row] for row in range(size))
        return {"rows": size, "wrong_rows": wrong, "fractions": bench.read_counts()[0]}

    def count_wrong_samples(self, kind: str) -> dict[str, int]:
        """Compute some elements here, and return how many of the device's differ."""
        wrong, size = 0, self.size
        for number in range(SAMPLES):
            row, column = (mix(2 * number + side) % size for side in (0, 1))
            expected = compute_element(kind, size, row, column)
            (word,) = struct.unpack(
                "<I", read_bytes(self.device, self.reference, (row * size + column) * 4, 4)
            )
            wrong += word != expected
        return {"samples": SAMPLES, "wrong_samples": wrong}


def compute_element(kind: str, size: int, row: int, column: int) -> int:
    """Return the 32 bits of one element of the product of integers."""
    total = 0
    for depth in range(size):
        left, right = mix(row * size + depth + SEED_A), mix(column * size + depth + SEED_B)
        total += left * right if kind == "u32" else ((left >> 28) - 8) * ((right >> 28) - 8)
    return total & WORD if kind == "u32" else int(struct.unpack("<I", struct.pack("<f", total))[0])


def choose_size(bench: CardBench, requested: int) -> tuple[int, int]:
    """Return the matrices' size and the number of results: one product stays short, all fit a quarter of the memory."""
    trial = Products(bench, SMALLEST, 1)
    trial.fill(ANY_WORDS)
    slowest = 0.0
    for kind in KINDS:
        trial.multiply(kind, *trial.results)  # the driver may compile at the first use
        slowest = max(slowest, trial.multiply(kind, *trial.results))
    trial.free()
    size, room = SMALLEST, bench.device.free_bytes() // 4
    while (
        2 * size <= min(requested, LARGEST)
        and 5 * (2 * size) ** 2 * 4 <= room
        and slowest * (2 * size / SMALLEST) ** 3 <= PRODUCT_SECONDS
    ):
        size *= 2
    return size, max(1, min(MAX_BATCH, room // (size * size * 4) - 3))


def work_on_products(
    bench: CardBench, requested: int, seconds: float, *, flips_bit: bool
) -> list[dict[str, Any]]:
    """Do the integer products, then those of floats."""
    size, batch = choose_size(bench, requested)
    products = Products(bench, size, batch)
    records = []
    for kind in KINDS:
        products.fill(ANY_WORDS if kind == "u32" else SMALL_INTEGERS)
        products.multiply(kind, products.reference)
        exact = {**products.count_wrong_rows(kind), **products.count_wrong_samples(kind)}
        if kind == "f32":
            products.fill(RANDOM_FLOATS)
            products.multiply(kind, products.reference)
        repeated = repeat_products(products, kind, seconds / len(KINDS), flips_bit=flips_bit)
        records.append(
            {
                "kernel": f"multiply_{kind}",
                "kind": kind,
                "size": size,
                "batch": batch,
                "exact": exact,
                **repeated,
            }
        )
    products.free()
    return records


def repeat_products(products: Products, kind: str, seconds: float, *, flips_bit: bool) -> dict[str, Any]:
    """Multiply the same operands again and again; compare every result with the first, bit by bit."""
    bench, runs, rates = products.bench, 0, list[float]()
    work = 2 * products.size**3 / 1e9
    bench.clear_counts()
    deadline = time.monotonic() + seconds
    while not runs or time.monotonic() < deadline:
        rates.append(round(work / products.multiply(kind, *products.results), 1))
        if flips_bit and not runs:
            bench.flip_bit(products.results[-1], products.reference.size // 2)
        products.compare()
        runs += len(products.results)
    record = build_product_record(runs, bench.read_counts(), "gops", rates)
    return {**record, "checksum": bench.sum_buffer(products.reference)}
