"""gpufleet's own interpreter of the PTX instructions that its kernels use: one block of threads at a time.

It is not NVIDIA's: written from the PTX ISA's text, to show without a GPU that the kernels compute the right
numbers. Asynchronous copies and products take effect as late as the ISA allows: at the wait that covers them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptx_tensor as tensor

Bits = NDArray[np.uint64]
Mask = NDArray[np.bool_]
SHARED_BYTES = 1 << 18
BASE = 1 << 20
WIDTHS = {"8": 1, "16": 2, "32": 4, "64": 8}
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
MAX_STEPS = 2_000_000


class PtxError(RuntimeError):
    """The text is not what this interpreter knows, or it does what hardware would not allow."""


@dataclass(frozen=True)
class Instruction:
    """One instruction: its guard, its opcode's parts and its operands."""

    guard: str
    negated: bool
    opcode: tuple[str, ...]
    operands: tuple[str, ...]


@dataclass
class Program:
    """A kernel's parsed body."""

    parameters: dict[str, int]
    instructions: list[Instruction]
    labels: dict[str, int]


def split_operands(text: str) -> tuple[str, ...]:
    """Split at the commas outside of braces and brackets."""
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and not depth:
            parts.append(text[start:position].strip())
            start = position + 1
    return tuple(part for part in [*parts, text[start:].strip()] if part)


def parse_kernel(ptx: str, name: str) -> Program:
    """Parse one entry of a module."""
    match = re.search(rf"\.entry {name}\((.*?)\)\s*\.maxntid[^{{]*\{{(.*?)\n\}}", ptx, re.DOTALL)
    if not match:
        raise PtxError(f"no kernel {name}")
    parameters = {}
    for line in match[1].split(","):
        words = line.split()
        size = re.search(r"\[(\d+)\]", words[-1])
        parameters[words[-1].split("[")[0]] = int(size[1]) if size else WIDTHS[words[-2][2:]]
    program = Program(parameters, [], {})
    for line in match[2].splitlines():
        text = line.strip()
        if text.endswith(":"):
            program.labels[text[:-1]] = len(program.instructions)
        elif text and not text.startswith(".reg"):
            guard = re.match(r"@(!?)(%\w+)\s+", text)
            words = text[guard.end() if guard else 0 :].rstrip(";").split(None, 1)
            operands = split_operands(words[1]) if len(words) > 1 else ()
            program.instructions.append(
                Instruction(
                    guard[2] if guard else "", bool(guard and guard[1]), tuple(words[0].split(".")), operands
                )
            )
    return program


@dataclass
class DeviceMemory:
    """Global memory: one range that begins at BASE."""

    size: int = 1 << 24
    used: int = 0
    data: NDArray[np.uint8] = field(init=False)

    def __post_init__(self) -> None:
        self.data = np.zeros(self.size, np.uint8)

    def allocate(self, content: bytes) -> int:
        """Place content, aligned to 256 bytes; return its address."""
        address = self.used
        if address + len(content) > self.size:
            raise PtxError("out of memory")
        self.data[address : address + len(content)] = np.frombuffer(content, np.uint8)
        self.used = -(-(address + len(content)) // 256) * 256
        return address + BASE

    def read(self, address: int, size: int) -> bytes:
        """Return a range's bytes."""
        return self.data[address - BASE : address - BASE + size].tobytes()


class Block:
    """The threads of one block, each register an array of raw bits."""

    def __init__(
        self, program: Program, memory: DeviceMemory, arguments: dict[str, Any], block: int, threads: int
    ):
        self.program, self.memory, self.arguments = program, memory, arguments
        self.threads = threads
        self.block = block
        self.shared = np.zeros(SHARED_BYTES, np.uint8)
        self.registers: dict[str, Bits] = defaultdict(lambda: np.zeros(threads, np.uint64))
        self.predicates: dict[str, Mask] = defaultdict(lambda: np.zeros(threads, np.bool_))
        self.counter = np.zeros(threads, np.int64)
        self.exited = np.zeros(threads, np.bool_)
        self.waiting = np.zeros(threads, np.bool_)
        self.yielded = np.zeros(threads, np.bool_)
        self.async_state = tensor.AsyncState()

    def run(self) -> None:
        """Run all threads to their end: always those at the lowest instruction that are not waiting."""
        for _ in range(MAX_STEPS):
            ready = ~self.exited & ~self.waiting
            if not ready.any():
                if self.exited.all():
                    return
                self.waiting[:] = False  # every thread that is left has reached the barrier
                continue
            if not (ready & ~self.yielded).any():
                self.yielded[:] = False
            ready &= ~self.yielded
            place = int(self.counter[ready].min())
            self.step(place, ready & (self.counter == place))
        raise PtxError("the kernel does not end")

    def step(self, place: int, mask: Mask) -> None:
        """Execute one instruction for the threads at it."""
        instruction = self.program.instructions[place]
        self.counter[mask] += 1
        if instruction.guard:
            mask = mask & (self.predicates[instruction.guard] != instruction.negated)
        if not mask.any():
            return
        handler = getattr(self, f"run_{instruction.opcode[0]}", None)
        if handler is None:
            raise PtxError(f"unknown instruction {'.'.join(instruction.opcode)}")
        # Overflow and wrap-around are what the instructions define.
        with np.errstate(all="ignore"):
            handler(instruction.opcode, instruction.operands, mask)

    # Operands

    def value(self, text: str) -> Bits:
        """Return an operand's raw bits."""
        if text in {"%tid.x", "%ctaid.x"}:
            return np.arange(self.threads, dtype=np.uint64) if text == "%tid.x" else self.constant(self.block)
        if text.startswith("%"):
            return self.registers[text]
        if text == "smem":
            return self.constant(0)
        if text.startswith("0f"):
            return self.constant(int(f"0x{text[2:]}", 0))
        if text in self.program.parameters:
            return self.constant(0)  # its address: only ever used to find a tensor map again
        return self.constant(int(text, 0) & 0xFFFFFFFFFFFFFFFF)

    def constant(self, number: int) -> Bits:
        """Return a number for every thread."""
        return np.full(self.threads, number, np.uint64)

    def typed(self, text: str, kind: str) -> Any:
        """Return an operand as its type."""
        bits = self.value(text)
        width = WIDTHS[kind[1:]]
        raw = bits.astype(f"<u{width}")
        if kind in FLOATS:
            return raw.view(FLOATS[kind])
        return raw.view(f"<i{width}") if kind[0] == "s" else raw

    def assign(self, text: str, result: Any, mask: Mask) -> None:
        """Set a register where the mask allows."""
        raw = np.ascontiguousarray(result)
        bits = raw.view(f"<u{raw.dtype.itemsize}").astype(np.uint64)
        self.registers[text][mask] = bits[mask]

    def address(self, text: str) -> Bits:
        """Return the addresses of an operand such as [%d1+16]."""
        base, _, offset = text.strip("[]").partition("+")
        return self.value(base.strip()) + np.uint64(int(offset or 0))

    def space(self, opcode: tuple[str, ...], addresses: Bits) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the memory of an access and the places in it."""
        if "shared" in opcode:
            return self.shared, addresses.astype(np.int64)
        return self.memory.data, addresses.astype(np.int64) - BASE

    def check(self, memory: NDArray[np.uint8], places: NDArray[np.int64], size: int, mask: Mask) -> None:
        """Refuse an access that hardware would refuse."""
        chosen = places[mask]
        if (chosen < 0).any() or (chosen + size > len(memory)).any():
            raise PtxError("access out of bounds")
        if (chosen % size).any():
            raise PtxError("misaligned access")

    # Moves and memory

    def run_ld(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Load parameters or vectors."""
        width = WIDTHS[opcode[-1][1:]]
        if opcode[1] == "param":
            self.assign(
                operands[0],
                np.full(self.threads, self.arguments[operands[1].strip("[]")], f"<u{width}"),
                mask,
            )
            return
        targets = [part.strip() for part in operands[0].strip("{}").split(",")]
        memory, places = self.space(opcode, self.address(operands[1]))
        self.check(memory, places, width * len(targets), mask)
        for number, target in enumerate(targets):
            self.assign(target, tensor.gather(memory, places + number * width, width, mask), mask)

    def run_st(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Store vectors."""
        width = WIDTHS[opcode[-1][1:]]
        sources = [part.strip() for part in operands[1].strip("{}").split(",")]
        memory, places = self.space(opcode, self.address(operands[0]))
        self.check(memory, places, width * len(sources), mask)
        for number, source in enumerate(sources):
            tensor.scatter(memory, places + number * width, self.value(source), width, mask)

    def run_red(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Combine with global memory, one thread after the other."""
        width = WIDTHS[opcode[-1][1:]]
        _, places = self.space(opcode, self.address(operands[0]))
        values = self.value(operands[1])
        self.check(self.memory.data, places, width, mask)
        for thread in np.flatnonzero(mask):
            cell = self.memory.data[places[thread] : places[thread] + width].view(f"<u{width}")
            value = values[thread].astype(cell.dtype)
            cell[0] = {"add": cell[0] + value, "min": min(cell[0], value), "or": cell[0] | value}[opcode[2]]

    def run_mov(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Copy, or join two halves."""
        if operands[1].startswith("{"):
            low, high = (self.value(part.strip()) for part in operands[1].strip("{}").split(","))
            self.assign(operands[0], (low & np.uint64(0xFFFF)) | (high << np.uint64(16)), mask)
        else:
            self.assign(operands[0], self.value(operands[1]), mask)

    def run_cvta(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Find the parameter that holds a tensor map; here its address is its number."""
        number = list(self.program.parameters).index({"%d0": "a", "%d1": "b"}[operands[0]])
        self.assign(operands[0], self.constant(number), mask)

    def run_cvt(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Convert between types."""
        target, source = opcode[-2], opcode[-1]
        value = self.typed(operands[1], source)
        if "rzi" in opcode:
            value = np.clip(np.trunc(np.nan_to_num(value.astype(np.float64))), -(2**31), 2**31 - 1)
        kind = FLOATS.get(target) or f"<{'i' if target[0] == 's' else 'u'}{WIDTHS[target[1:]]}"
        self.assign(operands[0], value.astype(kind), mask)

    # Arithmetic

    def run_binary(
        self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask, function: Any
    ) -> None:
        """Run an operation of two operands of the same type."""
        left, right = (self.typed(text, opcode[-1]) for text in operands[1:3])
        self.assign(operands[0], function(left, right), mask)

    def run_add(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Add."""
        self.run_binary(opcode, operands, mask, np.add)

    def run_sub(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Subtract."""
        self.run_binary(opcode, operands, mask, np.subtract)

    def run_and(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """And."""
        self.run_binary(opcode, operands, mask, np.bitwise_and)

    def run_or(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Or."""
        self.run_binary(opcode, operands, mask, np.bitwise_or)

    def run_xor(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Exclusive or."""
        self.run_binary(opcode, operands, mask, np.bitwise_xor)

    def run_shl(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Shift left."""
        self.run_binary(opcode, operands, mask, np.left_shift)

    def run_shr(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Shift right."""
        self.run_binary(opcode, operands, mask, np.right_shift)

    def run_min(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Choose the smaller."""
        self.run_binary(opcode, operands, mask, np.minimum)

    def run_div(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Divide integers."""
        self.run_binary(opcode, operands, mask, np.floor_divide)

    def run_rem(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Return the remainder."""
        self.run_binary(opcode, operands, mask, np.remainder)

    def run_mul(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Multiply, keeping the low half or all of it."""
        left, right = (self.typed(text, opcode[-1]) for text in operands[1:3])
        if opcode[1] == "wide":
            left, right = (
                side.astype(f"<{side.dtype.kind}{2 * side.dtype.itemsize}") for side in (left, right)
            )
        self.assign(operands[0], left * right, mask)

    def run_mad(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Multiply and add."""
        left, right = (self.typed(text, opcode[-1]) for text in operands[1:3])
        if opcode[1] == "wide":
            left, right = left.astype(np.uint64), right.astype(np.uint64)
        addend = self.value(operands[3]).astype(left.dtype)
        self.assign(operands[0], left * right + addend, mask)

    def run_fma(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Multiply and add with one rounding."""
        kind = opcode[-1]
        values = [self.typed(text, kind) for text in operands[1:4]]
        self.assign(operands[0], tensor.fuse(kind, *values, mask), mask)

    def run_setp(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Compare."""
        left, right = (self.typed(text, opcode[-1]) for text in operands[1:3])
        functions = {
            "eq": np.equal,
            "ne": np.not_equal,
            "neu": np.not_equal,
            "lt": np.less,
            "le": np.less_equal,
        }
        functions |= {"ge": np.greater_equal, "gt": np.greater}
        self.predicates[operands[0]][mask] = functions[opcode[1]](left, right)[mask]

    def run_selp(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Choose by a predicate."""
        left, right = (self.typed(text, opcode[-1]) for text in operands[1:3])
        self.assign(operands[0], np.where(self.predicates[operands[3]], left, right), mask)

    # Control

    def run_bra(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Jump."""
        self.counter[mask] = self.program.labels[operands[0]]

    def run_ret(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """End the threads."""
        self.exited |= mask

    def run_bar(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Wait for the whole block."""
        self.waiting |= mask

    # Tensor cores and asynchronous copies

    def run_ldmatrix(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Load four 8 x 8 matrices a warp."""
        tensor.load_matrices(self, operands, mask)

    def run_mma(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Multiply a warp's fragments."""
        tensor.multiply_fragments(self, opcode, operands, mask)

    def run_wmma(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Load, multiply or store a warp's 16 x 16 matrices."""
        tensor.use_wmma(self, opcode, operands, mask)

    def run_cp(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Queue, group or await asynchronous copies."""
        tensor.copy_asynchronously(self, opcode, operands, mask)

    def run_wgmma(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Queue, group or await a warp group's products."""
        tensor.multiply_in_groups(self, opcode, operands, mask)

    def run_mbarrier(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Use a barrier in shared memory."""
        tensor.use_barrier(self, opcode, operands, mask)

    def run_fence(self, opcode: tuple[str, ...], operands: tuple[str, ...], mask: Mask) -> None:
        """Order memory accesses: nothing to do, for this interpreter reorders none."""


def launch(ptx: str, name: str, memory: DeviceMemory, blocks: int, threads: int, **arguments: Any) -> None:
    """Run a kernel's blocks one after the other."""
    program = parse_kernel(ptx, name)
    if set(arguments) != set(program.parameters):
        raise PtxError(f"{name} takes {', '.join(program.parameters)}")
    for block in range(blocks):
        Block(program, memory, arguments, block, threads).run()
