"""Compute kernels for Vulkan: patterns, operands, tiled matrix products and exact checks of them, as SPIR-V.

As in the CUDA kernels every value is a function of its place, so that a check never reads what it checks against from
the memory under test. Integers are exact by definition (modulo 2^32). Floats are exact where operands are small
integers; with random mantissas the order of all additions is fixed, so a device must give the same bits every time.
"""

from __future__ import annotations

from typing import Callable  # noqa: UP035 - Python 3.9 runs this

from .card_device import (
    DEPTH,
    GROUP_VECTORS,
    RANDOM_FLOATS,
    SMALL_INTEGERS,
    STRIDE,
    TILE,
    WIDTH,
)
from .ptx_basic import THREADS, VECTORS_PER_THREAD, WEIGHT_SEED, WORD_FACTORS
from .spirv import Kernel


def emit_mix(kernel: Kernel, value: int) -> int:
    """Write the hash ``ptx_basic.mix``."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 0)):
        shifted = kernel.op("ShiftRightLogical", kernel.u32, value, kernel.constant(shift))
        value = kernel.op("BitwiseXor", kernel.u32, value, shifted)
        if factor:
            value = kernel.multiply(value, kernel.constant(factor))
    return value


def emit_small_integer(kernel: Kernel, hashed: int) -> int:
    """Write the integer from -8 to 7 that belongs to a hash, as its 32 bits."""
    top = kernel.op("ShiftRightLogical", kernel.u32, hashed, kernel.constant(28))
    return kernel.op("ISub", kernel.u32, top, kernel.constant(8))


def emit_weight(kernel: Kernel, column: int) -> int:
    """Write a column's weight: odd, so that no wrong element is divided out."""
    hashed = emit_mix(kernel, kernel.add(column, kernel.constant(WEIGHT_SEED)))
    return kernel.op("BitwiseOr", kernel.u32, hashed, kernel.constant(1))


def emit_places(kernel: Kernel) -> list[int]:
    """Write the places of a linear pass that belong to this thread."""
    base = kernel.add(kernel.multiply(kernel.group, kernel.constant(GROUP_VECTORS)), kernel.thread)
    return [kernel.add(base, kernel.constant(number * THREADS)) for number in range(VECTORS_PER_THREAD)]


def emit_pattern(kernel: Kernel, place: int, seed: int, keep: int, flip: int) -> int:
    """Write a vector of a pattern: the hash of its place, with bits that are kept and bits that are flipped."""
    hashed = emit_mix(kernel, kernel.add(place, seed))
    words = []
    for factor in WORD_FACTORS:
        word = kernel.multiply(hashed, kernel.constant(factor))
        word = kernel.op("BitwiseAnd", kernel.u32, word, keep)
        words.append(kernel.op("BitwiseXor", kernel.u32, word, flip))
    return kernel.op("CompositeConstruct", kernel.u32x4, *words)


def emit_comparison(kernel: Kernel, place: int, left: int, right: int, counts: int) -> None:
    """Write the comparison of two vectors: counts has how many differ, the first one, and which bits."""
    unequal = kernel.op("Any", kernel.bool, kernel.op("INotEqual", kernel.boolx4, left, right))
    with kernel.when(unequal):
        different = kernel.op("BitwiseXor", kernel.u32x4, left, right)
        bits = kernel.component(different, 0, kernel.u32)
        for number in range(1, 4):
            bits = kernel.op("BitwiseOr", kernel.u32, bits, kernel.component(different, number, kernel.u32))
        kernel.atomic("AtomicIAdd", counts, kernel.constant(0), kernel.constant(1))
        kernel.atomic("AtomicUMin", counts, kernel.constant(1), place)
        kernel.atomic("AtomicOr", counts, kernel.constant(2), bits)


def build_fill_pattern() -> bytes:
    """Buffers: data. Numbers: seed, bits to keep, bits to flip."""
    kernel = Kernel(THREADS, ["u32x4"], 3)
    for place in emit_places(kernel):
        kernel.store(0, place, emit_pattern(kernel, place, *kernel.numbers))
    return kernel.assemble()


def build_verify_pattern() -> bytes:
    """Buffers: data, counts. Numbers: seed, bits to keep, bits to flip."""
    kernel = Kernel(THREADS, ["u32x4", "u32"], 3)
    for place in emit_places(kernel):
        emit_comparison(kernel, place, kernel.load(0, place), emit_pattern(kernel, place, *kernel.numbers), 1)
    return kernel.assemble()


def build_compare_vectors() -> bytes:
    """Buffers: two to compare, counts."""
    kernel = Kernel(THREADS, ["u32x4", "u32x4", "u32"], 0)
    for place in emit_places(kernel):
        emit_comparison(kernel, place, kernel.load(0, place), kernel.load(1, place), 2)
    return kernel.assemble()


def build_copy_vectors() -> bytes:
    """Buffers: source, target."""
    kernel = Kernel(THREADS, ["u32x4", "u32x4"], 0)
    for place in emit_places(kernel):
        kernel.store(1, place, kernel.load(0, place))
    return kernel.assemble()


def build_sum_vectors() -> bytes:
    """Buffers: data, counts; adds a checksum, which depends on each word and its place, to the first count."""
    kernel = Kernel(THREADS, ["u32x4", "u32"], 0)
    total = kernel.constant(0)
    for place in emit_places(kernel):
        vector, hashed = kernel.load(0, place), emit_mix(kernel, place)
        for number in range(4):
            word = kernel.add(kernel.component(vector, number, kernel.u32), kernel.constant(number))
            total = kernel.add(total, emit_mix(kernel, kernel.op("BitwiseXor", kernel.u32, word, hashed)))
    kernel.atomic("AtomicIAdd", 1, kernel.constant(0), total)
    return kernel.assemble()


def build_fill_operands() -> bytes:
    """Buffers: matrix. Numbers: seed, how the operands are made."""
    kernel = Kernel(THREADS, ["u32"], 2)
    seed, mode = kernel.numbers
    is_small, is_random = (
        kernel.op("IEqual", kernel.bool, mode, kernel.constant(value))
        for value in (SMALL_INTEGERS, RANDOM_FLOATS)
    )
    for place in emit_places(kernel):
        hashed = emit_mix(kernel, kernel.add(place, seed))
        number = kernel.op("Bitcast", kernel.i32, emit_small_integer(kernel, hashed))
        small = kernel.op("Bitcast", kernel.u32, kernel.op("ConvertSToF", kernel.f32, number))
        mantissa = kernel.op("BitwiseAnd", kernel.u32, hashed, kernel.constant(0x80FFFFFF))
        mantissa = kernel.op("BitwiseOr", kernel.u32, mantissa, kernel.constant(0x3F000000))
        value = kernel.op("Select", kernel.u32, is_small, small, hashed)
        kernel.store(0, place, kernel.op("Select", kernel.u32, is_random, mantissa, value))
    return kernel.assemble()


def build_multiply(kind: str) -> bytes:
    """C = A Bᵀ. Buffers: A, B (rows of the depth), C. Numbers: side, tiles in a row."""
    kernel = Kernel(THREADS, ["u32x4", "u32x4", "u32"], 2)
    side, tiles = kernel.numbers
    element = kernel.f32 if kind == "f32" else kernel.u32
    shared = [kernel.shared_array(element, DEPTH * STRIDE) for _ in range(2)]
    tile_row = kernel.op("UDiv", kernel.u32, kernel.group, tiles)
    tile_column = kernel.op("UMod", kernel.u32, kernel.group, tiles)
    starts = [kernel.multiply(tile, kernel.constant(TILE)) for tile in (tile_row, tile_column)]
    # Each thread moves one vector of A and of B: its row in the tile, its place in the depth.
    row, part = (
        kernel.op(name, kernel.u32, kernel.thread, kernel.constant(DEPTH // 4)) for name in ("UDiv", "UMod")
    )
    vectors = kernel.op("UDiv", kernel.u32, side, kernel.constant(4))
    lines = [kernel.multiply(kernel.add(start, row), vectors) for start in starts]
    column_in_tile = kernel.op("UMod", kernel.u32, kernel.thread, kernel.constant(TILE // WIDTH))
    row_in_tile = kernel.op("UDiv", kernel.u32, kernel.thread, kernel.constant(TILE // WIDTH))
    sums = [kernel.variable(element, kernel.constant(0, element)) for _ in range(WIDTH * WIDTH)]
    with kernel.loop(kernel.op("UDiv", kernel.u32, side, kernel.constant(DEPTH))) as step:
        place = kernel.add(kernel.multiply(step, kernel.constant(DEPTH // 4)), part)
        for number in range(2):
            vector = kernel.load(number, kernel.add(lines[number], place))
            for inner in range(4):
                value = kernel.component(vector, inner, kernel.u32)
                if kind == "f32":
                    value = kernel.op("Bitcast", element, value)
                depth = kernel.add(kernel.multiply(part, kernel.constant(4)), kernel.constant(inner))
                where = kernel.add(kernel.multiply(depth, kernel.constant(STRIDE)), row)
                kernel.write(shared[number](where), value)
        kernel.barrier()
        with kernel.loop(kernel.constant(DEPTH), unroll=True) as depth:
            line = kernel.multiply(depth, kernel.constant(STRIDE))
            left, right = (
                [
                    kernel.read(element, array(kernel.add(base, kernel.constant(number * TILE // WIDTH))))
                    for number in range(WIDTH)
                ]
                for array, base in (
                    (shared[0], kernel.add(line, row_in_tile)),
                    (shared[1], kernel.add(line, column_in_tile)),
                )
            )
            for number, variable in enumerate(sums):
                a, b = left[number // WIDTH], right[number % WIDTH]
                kernel.write(variable, kernel.multiply_add(element, a, b, kernel.read(element, variable)))
        kernel.barrier()
    for number, variable in enumerate(sums):
        value = kernel.read(element, variable)
        if kind == "f32":
            value = kernel.op("Bitcast", kernel.u32, value)
        steps = [kernel.constant(part * TILE // WIDTH) for part in divmod(number, WIDTH)]
        line, column = (
            kernel.add(kernel.add(start, own), step)
            for start, own, step in zip(starts, (row_in_tile, column_in_tile), steps)  # noqa: B905 - Python 3.9
        )
        kernel.store(2, kernel.add(kernel.multiply(line, side), column), value)
    return kernel.assemble()


def emit_row(kernel: Kernel, side: int) -> tuple[int, int]:
    """Write this thread's row and whether there is such a row."""
    row = kernel.add(kernel.multiply(kernel.group, kernel.constant(THREADS)), kernel.thread)
    return row, kernel.op("ULessThan", kernel.bool, row, side)


def emit_operand(kernel: Kernel, place: int, seed: int, kind: str) -> int:
    """Write the integer that an operand is."""
    hashed = emit_mix(kernel, kernel.add(place, seed))
    return emit_small_integer(kernel, hashed) if kind == "f32" else hashed


def build_weigh_b(kind: str) -> bytes:
    """Sum each column of B with the weights. Buffers: the sums. Numbers: side, seed."""
    kernel = Kernel(THREADS, ["u32"], 2)
    side, seed = kernel.numbers
    column, is_inside = emit_row(kernel, side)
    with kernel.when(is_inside):
        total = kernel.variable(kernel.u32, kernel.constant(0))
        with kernel.loop(side) as row:
            operand = emit_operand(kernel, kernel.add(kernel.multiply(row, side), column), seed, kind)
            product = kernel.multiply(operand, emit_weight(kernel, row))
            kernel.write(total, kernel.add(kernel.read(kernel.u32, total), product))
        kernel.store(0, column, kernel.read(kernel.u32, total))
    return kernel.assemble()


def build_weigh_a(kind: str) -> bytes:
    """Sum each row of A with the sums of B. Buffers: the sums of B, the results. Numbers: side, seed."""
    kernel = Kernel(THREADS, ["u32", "u32"], 2)
    side, seed = kernel.numbers
    row, is_inside = emit_row(kernel, side)
    with kernel.when(is_inside):
        total = kernel.variable(kernel.u32, kernel.constant(0))
        with kernel.loop(side) as column:
            operand = emit_operand(kernel, kernel.add(kernel.multiply(row, side), column), seed, kind)
            product = kernel.multiply(operand, kernel.load(0, column))
            kernel.write(total, kernel.add(kernel.read(kernel.u32, total), product))
        kernel.store(1, row, kernel.read(kernel.u32, total))
    return kernel.assemble()


def build_weigh_c(kind: str) -> bytes:
    """Sum each row of C with the weights. Buffers: C, the results, counts (of fractions). Numbers: side."""
    kernel = Kernel(THREADS, ["u32", "u32", "u32"], 1)
    (side,) = kernel.numbers
    row, is_inside = emit_row(kernel, side)
    with kernel.when(is_inside):
        total = kernel.variable(kernel.u32, kernel.constant(0))
        with kernel.loop(side) as column:
            word = kernel.load(0, kernel.add(kernel.multiply(row, side), column))
            if kind == "f32":
                value = kernel.op("Bitcast", kernel.f32, word)
                whole = kernel.op("ConvertFToS", kernel.i32, value)
                back = kernel.op("ConvertSToF", kernel.f32, whole)
                with kernel.when(kernel.op("FUnordNotEqual", kernel.bool, value, back)):
                    kernel.atomic("AtomicIAdd", 2, kernel.constant(0), kernel.constant(1))
                word = kernel.op("Bitcast", kernel.u32, whole)
            product = kernel.multiply(word, emit_weight(kernel, column))
            kernel.write(total, kernel.add(kernel.read(kernel.u32, total), product))
        kernel.store(1, row, kernel.read(kernel.u32, total))
    return kernel.assemble()


KERNELS: dict[str, Callable[[], bytes]] = {
    "fill_pattern": build_fill_pattern,
    "verify_pattern": build_verify_pattern,
    "compare_vectors": build_compare_vectors,
    "copy_vectors": build_copy_vectors,
    "sum_vectors": build_sum_vectors,
    "fill_operands": build_fill_operands,
    **{
        f"{name}_{kind}": (lambda build=build, kind=kind: build(kind))  # type: ignore[misc]
        for kind in ("u32", "f32")
        for name, build in (
            ("multiply", build_multiply), ("weigh_a", build_weigh_a), ("weigh_b", build_weigh_b),
            ("weigh_c", build_weigh_c),
        )
    },
}  # fmt: skip
