"""A small assembler of SPIR-V compute kernels: Python functions write the instructions, loops and branches.

Opcodes and enums are those of the SPIR-V specification 1.3 (Khronos); the tests run spirv-val on every kernel.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence  # noqa: UP035 - Python 3.9 runs this

MAGIC, VERSION_1_3, GENERATOR = 0x07230203, 0x00010300, 0
OPCODES = {
    "ExtInstImport": 11, "ExtInst": 12, "MemoryModel": 14, "EntryPoint": 15, "ExecutionMode": 16, "Capability": 17,
    "TypeVoid": 19, "TypeBool": 20, "TypeInt": 21, "TypeFloat": 22, "TypeVector": 23, "TypeArray": 28,
    "TypeRuntimeArray": 29, "TypeStruct": 30, "TypePointer": 32, "TypeFunction": 33, "Constant": 43,
    "Function": 54, "FunctionEnd": 56, "Variable": 59, "Load": 61, "Store": 62,
    "AccessChain": 65, "Decorate": 71, "MemberDecorate": 72, "CompositeConstruct": 80, "CompositeExtract": 81,
    "ConvertFToS": 110, "ConvertSToF": 111, "Bitcast": 124, "IAdd": 128, "ISub": 130, "IMul": 132,
    "UDiv": 134, "UMod": 137, "Any": 154, "Select": 169, "IEqual": 170, "INotEqual": 171,
    "ULessThan": 176, "FUnordNotEqual": 183, "ShiftRightLogical": 194, "BitwiseOr": 197,
    "BitwiseXor": 198, "BitwiseAnd": 199, "ControlBarrier": 224, "AtomicIAdd": 234, "AtomicUMin": 237,
    "AtomicOr": 241, "LoopMerge": 246, "SelectionMerge": 247, "Label": 248, "Branch": 249,
    "BranchConditional": 250, "Return": 253,
}  # fmt: skip
SHADER, LOGICAL, GLSL450, GL_COMPUTE, LOCAL_SIZE = 1, 0, 1, 5, 17
INPUT, WORKGROUP, FUNCTION, PUSH_CONSTANT, STORAGE_BUFFER = 1, 4, 7, 9, 12
BLOCK, ARRAY_STRIDE, BUILT_IN, BINDING, DESCRIPTOR_SET, OFFSET = 2, 6, 11, 33, 34, 35
WORKGROUP_ID, LOCAL_INVOCATION_INDEX = 26, 29
SCOPE_DEVICE, SCOPE_WORKGROUP = 1, 2
ACQUIRE_RELEASE, WORKGROUP_MEMORY = 0x8, 0x100
FMA = 50  # of the instruction set GLSL.std.450
WORD = 0xFFFFFFFF


def encode_text(text: str) -> list[int]:
    """Return a literal string's words: UTF-8, ended by a zero byte, filled up with zeros."""
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


class Kernel:
    """One compute kernel while it is written; ids are numbers, types and constants are made once.

    Its interface is fixed: storage buffers in set 0, bindings 0 and up, and ``numbers`` as push constants.
    """

    def __init__(self, threads: int, buffers: Sequence[str], numbers: int) -> None:
        self.next_id, self.known = 1, dict[Any, int]()
        self.parts: dict[str, list[int]] = {
            name: [] for name in ("decorations", "declarations", "variables", "body")
        }
        self.threads, self.interface = threads, list[int]()
        self.void, self.bool = self.declare("TypeVoid"), self.declare("TypeBool")
        self.u32, self.i32 = self.declare("TypeInt", 32, 0), self.declare("TypeInt", 32, 1)
        self.f32 = self.declare("TypeFloat", 32)
        self.u32x4 = self.declare("TypeVector", self.u32, 4)
        self.boolx4 = self.declare("TypeVector", self.bool, 4)
        self.extended = self.new_id()
        self.group = self.component(
            self._input(self.declare("TypeVector", self.u32, 3), WORKGROUP_ID), 0, self.u32
        )
        self.thread = self._input(self.u32, LOCAL_INVOCATION_INDEX)
        self.buffers = [self._storage(number, kind) for number, kind in enumerate(buffers)]
        self.numbers = self._push_constants(numbers) if numbers else []

    def new_id(self) -> int:
        """Return a fresh id."""
        self.next_id += 1
        return self.next_id - 1

    def emit(self, part: str, name: str, *operands: int) -> None:
        """Write an instruction."""
        self.parts[part] += [(len(operands) + 1) << 16 | OPCODES[name], *operands]

    def op(self, name: str, kind: int, *operands: int) -> int:
        """Write an instruction with a result; return its id."""
        result = self.new_id()
        self.emit("body", name, kind, result, *operands)
        return result

    def declare(self, name: str, *operands: int, unique: object = None) -> int:
        """Return the id of a type; the same one for the same type."""
        key = (name, operands, unique)
        if key not in self.known:
            self.known[key] = self.new_id()
            self.emit("declarations", name, self.known[key], *operands)
        return self.known[key]

    def constant(self, value: int, kind: int = 0) -> int:
        """Return a 32-bit constant given by its bits; unsigned unless a type is named."""
        kind = kind or self.u32
        key = ("Constant", kind, value & WORD)
        if key not in self.known:
            self.known[key] = self.new_id()
            self.emit("declarations", "Constant", kind, self.known[key], value & WORD)
        return self.known[key]

    def _global(self, storage: int, kind: int) -> int:
        pointer, variable = self.declare("TypePointer", storage, kind), self.new_id()
        self.emit("declarations", "Variable", pointer, variable, storage)
        return variable

    def _input(self, kind: int, built_in: int) -> int:
        variable = self._global(INPUT, kind)
        self.emit("decorations", "Decorate", variable, BUILT_IN, built_in)
        self.interface.append(variable)
        return self.op("Load", kind, variable)

    def _storage(self, number: int, kind: str) -> tuple[int, int]:
        element = getattr(self, kind)
        array = self.declare("TypeRuntimeArray", element)
        block = self.declare("TypeStruct", array, unique="block")
        if ("block", kind) not in self.known:
            self.known["block", kind] = block
            stride = 16 if kind == "u32x4" else 4
            self.emit("decorations", "Decorate", array, ARRAY_STRIDE, stride)
            self.emit("decorations", "Decorate", block, BLOCK)
            self.emit("decorations", "MemberDecorate", block, 0, OFFSET, 0)
        variable = self._global(STORAGE_BUFFER, block)
        self.emit("decorations", "Decorate", variable, DESCRIPTOR_SET, 0)
        self.emit("decorations", "Decorate", variable, BINDING, number)
        return variable, element

    def _push_constants(self, count: int) -> list[int]:
        block = self.declare("TypeStruct", *[self.u32] * count, unique="push")
        for number in range(count):
            self.emit("decorations", "MemberDecorate", block, number, OFFSET, 4 * number)
        self.emit("decorations", "Decorate", block, BLOCK)
        variable = self._global(PUSH_CONSTANT, block)
        pointer = self.declare("TypePointer", PUSH_CONSTANT, self.u32)
        places = [self.op("AccessChain", pointer, variable, self.constant(number)) for number in range(count)]
        return [self.op("Load", self.u32, place) for place in places]

    def place(self, buffer: int, index: int) -> int:
        """Return the address of an element of a storage buffer."""
        variable, element = self.buffers[buffer]
        pointer = self.declare("TypePointer", STORAGE_BUFFER, element)
        return self.op("AccessChain", pointer, variable, self.constant(0), index)

    def load(self, buffer: int, index: int) -> int:
        """Read an element of a storage buffer."""
        return self.op("Load", self.buffers[buffer][1], self.place(buffer, index))

    def store(self, buffer: int, index: int, value: int) -> None:
        """Write an element of a storage buffer."""
        self.emit("body", "Store", self.place(buffer, index), value)

    def shared_array(self, kind: int, count: int) -> Callable[[int], int]:
        """Return the function that gives the address of an element of an array that a workgroup shares."""
        array = self.declare("TypeArray", kind, self.constant(count))
        variable, pointer = self._global(WORKGROUP, array), self.declare("TypePointer", WORKGROUP, kind)
        return lambda index: self.op("AccessChain", pointer, variable, index)

    def variable(self, kind: int, value: int) -> int:
        """Return a local variable with a first value."""
        pointer, variable = self.declare("TypePointer", FUNCTION, kind), self.new_id()
        self.emit("variables", "Variable", pointer, variable, FUNCTION)
        self.emit("body", "Store", variable, value)
        return variable

    def read(self, kind: int, variable: int) -> int:
        """Read a variable or an address."""
        return self.op("Load", kind, variable)

    def write(self, variable: int, value: int) -> None:
        """Write a variable or an address."""
        self.emit("body", "Store", variable, value)

    def component(self, vector: int, number: int, kind: int) -> int:
        """Return one component of a vector."""
        return self.op("CompositeExtract", kind, vector, number)

    def add(self, left: int, right: int) -> int:
        """Return a sum of unsigned integers."""
        return self.op("IAdd", self.u32, left, right)

    def multiply(self, left: int, right: int) -> int:
        """Return a product of unsigned integers."""
        return self.op("IMul", self.u32, left, right)

    def multiply_add(self, kind: int, left: int, right: int, addend: int) -> int:
        """Return ``left * right + addend``, for floats by one fused instruction where the device has it."""
        if kind == self.f32:
            return self.op("ExtInst", kind, self.extended, FMA, left, right, addend)
        return self.op("IAdd", kind, self.op("IMul", kind, left, right), addend)

    def barrier(self) -> None:
        """Let the workgroup wait for all its threads and see what they wrote to shared memory."""
        scope, semantics = self.constant(SCOPE_WORKGROUP), self.constant(ACQUIRE_RELEASE | WORKGROUP_MEMORY)
        self.emit("body", "ControlBarrier", scope, scope, semantics)

    def atomic(self, name: str, buffer: int, index: int, value: int) -> None:
        """Change an element of a storage buffer that other threads change too."""
        self.op(
            name, self.u32, self.place(buffer, index), self.constant(SCOPE_DEVICE), self.constant(0), value
        )

    @contextmanager
    def when(self, condition: int) -> Iterator[None]:
        """Write instructions that run only if a condition holds."""
        inside, after = self.new_id(), self.new_id()
        self.emit("body", "SelectionMerge", after, 0)
        self.emit("body", "BranchConditional", condition, inside, after)
        self.emit("body", "Label", inside)
        yield
        self.emit("body", "Branch", after)
        self.emit("body", "Label", after)

    @contextmanager
    def loop(self, count: int, *, unroll: bool = False) -> Iterator[int]:
        """Write instructions that run ``count`` (an id) times; gives the index."""
        index = self.variable(self.u32, self.constant(0))
        head, check, inside, following, after = (self.new_id() for _ in range(5))
        self.emit("body", "Branch", head)
        self.emit("body", "Label", head)
        self.emit("body", "LoopMerge", after, following, int(unroll))
        self.emit("body", "Branch", check)
        self.emit("body", "Label", check)
        value = self.read(self.u32, index)
        self.emit("body", "BranchConditional", self.op("ULessThan", self.bool, value, count), inside, after)
        self.emit("body", "Label", inside)
        yield value
        self.emit("body", "Branch", following)
        self.emit("body", "Label", following)
        self.write(index, self.add(value, self.constant(1)))
        self.emit("body", "Branch", head)
        self.emit("body", "Label", after)

    def assemble(self) -> bytes:
        """Return the finished module."""
        function_type, main, label = self.declare("TypeFunction", self.void), self.new_id(), self.new_id()
        head: list[int] = []

        def write(name: str, *operands: int) -> None:
            head.extend([(len(operands) + 1) << 16 | OPCODES[name], *operands])

        write("Capability", SHADER)
        write("ExtInstImport", self.extended, *encode_text("GLSL.std.450"))
        write("MemoryModel", LOGICAL, GLSL450)
        write("EntryPoint", GL_COMPUTE, main, *encode_text("main"), *self.interface)
        write("ExecutionMode", main, LOCAL_SIZE, self.threads, 1, 1)
        self.emit("body", "Return")
        self.emit("body", "FunctionEnd")
        start = [
            5 << 16 | OPCODES["Function"],
            self.void,
            main,
            0,
            function_type,
            2 << 16 | OPCODES["Label"],
            label,
        ]
        words = [MAGIC, VERSION_1_3, GENERATOR, self.next_id, 0, *head, *self.parts["decorations"]]
        words += [*self.parts["declarations"], *start, *self.parts["variables"], *self.parts["body"]]
        return struct.pack(f"<{len(words)}I", *words)
