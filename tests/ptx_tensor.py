"""The interpreter's tensor instructions: warps' fragments, copies that finish late, Hopper's barriers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpufleet.burnin.agent.ptx_basic import round_to_f32

if TYPE_CHECKING:
    from ptx_interpreter import Bits, Block, Mask

# A product under way: its opcode's shape and types, its sums' registers, its two descriptors.
Product = tuple[tuple[str, ...], list[str], int, int]
WARP, GROUP = 32, 128
LANES = np.arange(WARP)


@dataclass(frozen=True)
class MatrixMap:
    """A tensor map of this interpreter: a row-major 16-bit matrix and the box that one copy takes."""

    address: int
    rows: int
    columns: int
    box: tuple[int, int]


@dataclass
class Barrier:
    """A barrier in shared memory: arrivals and bytes still missing in this phase."""

    expected: int
    missing: int
    bytes_missing: int = 0
    phase: int = 0

    def settle(self) -> None:
        """Begin the next phase when nothing is missing."""
        if self.missing == 0 and self.bytes_missing == 0:
            self.phase ^= 1
            self.missing = self.expected


@dataclass
class AsyncState:
    """What is under way: copies and products by group, barriers by address."""

    copies: list[Any] = field(default_factory=list)
    copy_groups: deque[list[Any]] = field(default_factory=deque)
    products: dict[int, list[Any]] = field(default_factory=dict)
    product_groups: dict[int, deque[list[Any]]] = field(default_factory=dict)
    barriers: dict[int, Barrier] = field(default_factory=dict)


def gather(memory: NDArray[np.uint8], places: NDArray[np.int64], width: int, mask: Mask) -> Any:
    """Return one value a thread."""
    result = np.zeros(len(places), f"<u{width}")
    index = places[mask][:, None] + np.arange(width)
    result[mask] = np.ascontiguousarray(memory[index]).view(f"<u{width}")[:, 0]
    return result


def scatter(memory: NDArray[np.uint8], places: NDArray[np.int64], bits: Bits, width: int, mask: Mask) -> None:
    """Store one value a thread."""
    values = bits.astype(f"<u{width}")[mask]
    memory[places[mask][:, None] + np.arange(width)] = values[:, None].view(np.uint8).reshape(-1, width)


def fuse(kind: str, left: Any, right: Any, addend: Any, mask: Mask) -> Any:
    """Return left * right + addend, rounded once; equal operands are computed once."""
    result, known = np.zeros_like(left), {}
    for thread in np.flatnonzero(mask):
        key = (left[thread], right[thread], addend[thread])
        if key not in known:
            exact = Fraction(float(key[0])) * Fraction(float(key[1])) + Fraction(float(key[2]))
            known[key] = float(round_to_f32(exact)) if kind == "f32" else float(exact)
        result[thread] = known[key]
    return result


def names(operand: str) -> list[str]:
    """Return the registers of a vector operand."""
    return [part.strip() for part in operand.strip("{}").split(",")]


def to_numbers(halves: NDArray[np.uint16], kind: str) -> NDArray[np.float64]:
    """Return 16-bit operands as numbers."""
    if kind == "f16":
        return halves.view(np.float16).astype(np.float64)
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def require_whole(mask: Mask, size: int, what: str) -> NDArray[np.int64]:
    """Return the first threads of the warps or groups that run; a part of one is an error."""
    groups = mask.reshape(-1, size)
    if (groups.any(axis=1) != groups.all(axis=1)).any():
        raise RuntimeError(f"{what} needs all {size} threads")
    return np.flatnonzero(groups.all(axis=1)) * size


def load_matrices(block: Block, operands: tuple[str, ...], mask: Mask) -> None:
    """Run ldmatrix.x4: lane 8 m + r gives the address of row r of matrix m; lane l gets row l / 4, pair l % 4."""
    places = block.address(operands[1]).astype(np.int64)
    block.check(block.shared, places, 16, mask)
    for first in require_whole(mask, WARP, "ldmatrix"):
        rows = places[first : first + WARP].reshape(4, 8)
        for matrix, register in enumerate(names(operands[0])):
            spots = rows[matrix][LANES // 4] + 4 * (LANES % 4)
            words = np.ascontiguousarray(block.shared[spots[:, None] + np.arange(4)]).view("<u4")[:, 0]
            block.registers[register][first : first + WARP] = words


def multiply_fragments(block: Block, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
    """Run mma.m16n8k8 or m16n8k16: sums in 32 bits; lane l holds row l / 4 and columns 2 (l % 4) and the next."""
    depth, kind = int(opcode[3].rpartition("k")[2]), opcode[7]
    sums, a_names, b_names, c_names = (names(operand) for operand in operands)
    row, pair = LANES // 4, 2 * (LANES % 4)
    for first in require_whole(mask, WARP, "mma"):
        lanes = slice(first, first + WARP)

        def halves(register: str, lanes: slice = lanes) -> NDArray[np.float64]:
            words = block.registers[register][lanes].astype("<u4")
            return to_numbers(np.ascontiguousarray(words).view(np.uint16), kind).reshape(WARP, 2)

        a, b, c = np.zeros((16, depth)), np.zeros((depth, 8)), np.zeros((16, 8))
        for number, register in enumerate(a_names):
            for part in range(2):
                a[row + 8 * (number % 2), pair + 8 * (number // 2) + part] = halves(register)[:, part]
        for number, register in enumerate(b_names):
            for part in range(2):
                b[pair + 8 * number + part, row] = halves(register)[:, part]
        for number, register in enumerate(c_names):
            values = np.ascontiguousarray(block.registers[register][lanes].astype("<u4")).view(np.float32)
            c[row + 8 * (number // 2), pair + number % 2] = values
        d = (a @ b + c).astype(np.float32)
        for number, register in enumerate(sums):
            values = np.ascontiguousarray(d[row + 8 * (number // 2), pair + number % 2])
            block.registers[register][lanes] = values.view("<u4")


def copy_asynchronously(block: Block, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
    """Run cp.async: copies land in shared memory only when a wait covers their group."""
    state = block.async_state
    if "bulk" in opcode:
        copy_box(block, operands, mask)
    elif "commit_group" in opcode:
        state.copy_groups.append(state.copies)
        state.copies = []
    elif "wait_group" in opcode:
        while len(state.copy_groups) > int(operands[0]):
            for places, data, chosen in state.copy_groups.popleft():
                block.shared[places[chosen][:, None] + np.arange(16)] = data
    else:
        places = block.address(operands[0]).astype(np.int64)
        sources = block.address(operands[1]).astype(np.int64) - (1 << 20)
        block.check(block.shared, places, 16, mask)
        block.check(block.memory.data, sources, 16, mask)
        data = block.memory.data[sources[mask][:, None] + np.arange(16)].copy()
        state.copies.append((places, data, mask.copy()))


def copy_box(block: Block, operands: tuple[str, ...], mask: Mask) -> None:
    """Run cp.async.bulk.tensor: rows of 128 bytes whose 16-byte chunks are swizzled by the row's number."""
    (thread,) = np.flatnonzero(mask)
    tensor, _, coordinates = operands[1].strip("[]").partition(",")
    column, row = (int(block.value(part)[thread]) for part in names(coordinates.strip()))
    source = list(block.arguments.values())[int(block.value(tensor.strip())[thread])]
    target, barrier = (int(block.address(operand)[thread]) for operand in (operands[0], operands[2]))
    width, height = source.box
    if target % 1024 or width * 2 != 128:
        raise RuntimeError("a swizzled box starts at 1,024 bytes and has rows of 128")
    for line in range(height):
        start = source.address - (1 << 20) + ((row + line) * source.columns + column) * 2
        data = block.memory.data[start : start + 128]
        for chunk in range(8):
            place = target + 128 * line + 16 * (chunk ^ line % 8)
            block.shared[place : place + 16] = data[16 * chunk : 16 * chunk + 16]
    state = block.async_state.barriers[barrier]
    state.bytes_missing -= width * height * 2
    state.settle()


def use_barrier(block: Block, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
    """Run mbarrier.init, arrive, arrive.expect_tx and try_wait.parity."""
    barriers = block.async_state.barriers
    if opcode[1] == "try_wait":
        addresses, phases = block.address(operands[1]), block.value(operands[2])
        waits = zip(addresses, phases, mask, strict=True)
        done = np.array([bool(m) and barriers[int(a)].phase != int(p) for a, p, m in waits])
        block.predicates[operands[0]][mask] = done[mask]
        block.yielded |= mask & ~done
        return
    for thread in np.flatnonzero(mask):
        if opcode[1] == "init":
            count = int(operands[1])
            barriers[int(block.address(operands[0])[thread])] = Barrier(count, count)
        else:
            barrier = barriers[int(block.address(operands[1])[thread])]
            if "expect_tx" in opcode:
                barrier.bytes_missing += int(operands[2])
            barrier.missing -= 1
            barrier.settle()


def read_swizzled(block: Block, descriptor: int, rows: int) -> NDArray[np.uint16]:
    """Return a rows x 16 matrix by a wgmma descriptor: rows of 128 bytes, eight of them every stride."""
    start, stride = (descriptor & 0x3FFF) << 4, ((descriptor >> 32) & 0x3FFF) << 4
    if descriptor >> 62 != 1:
        raise RuntimeError("the descriptor does not say 128-byte swizzle")
    row = np.arange(rows)[:, None]
    plain = start + (row // 8) * stride + (row % 8) * 128 + 2 * np.arange(16)[None, :]
    places = plain ^ (((plain >> 7) & 7) << 4)
    return np.ascontiguousarray(block.shared[places[:, :, None] + np.arange(2)]).view(np.uint16)[:, :, 0]


def multiply_in_groups(block: Block, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
    """Run wgmma: products read shared memory and change their sums only when a wait covers their group."""
    state = block.async_state
    for first in require_whole(mask, GROUP, "wgmma"):
        key = int(first)
        groups = state.product_groups.setdefault(key, deque())
        if opcode[1] == "mma_async":
            left, right = (int(block.value(operand)[first]) for operand in operands[1:3])
            state.products.setdefault(key, []).append((opcode[4:], names(operands[0]), left, right))
        elif opcode[1] == "commit_group":
            groups.append(state.products.pop(key, []))
        elif opcode[1] == "wait_group":
            while len(groups) > int(operands[0]):
                for product in groups.popleft():
                    apply_product(block, key, product)


def apply_product(block: Block, first: int, product: Product) -> None:
    """Add one 64 x n x 16 product to a group's sums."""
    shape, sums, left, right = product
    columns, kind = int(shape[0][4:-3]), shape[-1]
    a = to_numbers(read_swizzled(block, left, 64), kind)
    b = to_numbers(read_swizzled(block, right, columns), kind)
    matrix = a @ b.T
    thread = np.arange(GROUP)
    row, pair = 16 * (thread // WARP) + thread % WARP // 4, 2 * (thread % 4)
    lanes = slice(first, first + GROUP)
    for number, register in enumerate(sums):
        part = number % 4
        addend = matrix[row + 8 * (part // 2), pair + 8 * (number // 4) + part % 2]
        old = np.ascontiguousarray(block.registers[register][lanes].astype("<u4")).view(np.float32)
        block.registers[register][lanes] = (old + addend).astype(np.float32).view("<u4")


def use_wmma(block: Block, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
    """Run wmma.load, mma and store for f16; the layout of a fragment is the hardware's own, so here it is ours.

    Lane l holds elements 8 l to 8 l + 7 of a 16 x 16 matrix of sums, and the 16-bit words l, l + 32, … of operands.
    """
    for first in require_whole(mask, WARP, "wmma"):
        lanes = slice(first, first + WARP)
        if opcode[1] == "load":
            start, length = int(block.address(operands[1])[first]), int(operands[2])
            if start % 32 or length % 8:
                raise RuntimeError("wmma.load needs 32-byte addresses and rows of whole 16 bytes")
            places = start + 2 * (np.arange(16)[:, None] * length + np.arange(16))
            content = block.shared[places[:, :, None] + np.arange(2)].reshape(-1)
            words = np.ascontiguousarray(content).view("<u4")
            for number, register in enumerate(names(operands[0])):
                block.registers[register][lanes] = words[WARP * number % 128 : WARP * number % 128 + WARP]
        elif opcode[1] == "mma":
            a, b = (read_fragment(block, names(operand), lanes) for operand in operands[1:3])
            sums = read_sums(block, names(operands[3]), lanes)
            result = (a @ b.T + sums).astype(np.float32).reshape(WARP, 8)
            for number, register in enumerate(names(operands[0])):
                block.registers[register][lanes] = np.ascontiguousarray(result[:, number]).view("<u4")
        else:
            start, length = (
                int(block.address(operands[0])[first]) - (1 << 20),
                int(block.value(operands[2])[first]),
            )
            sums = read_sums(block, names(operands[1]), lanes)
            for row in range(16):
                place = start + 4 * row * length
                block.memory.data[place : place + 64] = sums[row].view(np.uint8)


def read_fragment(block: Block, registers: list[str], lanes: slice) -> NDArray[np.float64]:
    """Return an operand's 16 x 16 matrix, as use_wmma spread it."""
    words = np.concatenate([block.registers[register][lanes] for register in registers[:4]]).astype("<u4")
    return to_numbers(np.ascontiguousarray(words).view(np.uint16), "f16").reshape(16, 16)


def read_sums(block: Block, registers: list[str], lanes: slice) -> NDArray[np.float32]:
    """Return a 16 x 16 matrix of sums, as use_wmma spread it."""
    words = np.stack([block.registers[register][lanes] for register in registers], axis=1).astype("<u4")
    return np.ascontiguousarray(words).view(np.float32).reshape(16, 16)
