"""PTX kernels that every architecture runs: operands, exact checks, memory patterns and chains of FMAs.

The driver compiles this text on the node. Every value is a function of its place, so that a check never
reads what it checks against from the memory under test.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Sequence  # noqa: UP035 - Python 3.9 runs this

THREADS = 256
VECTORS_PER_THREAD = 4
# A block's share of a linear pass: 256 threads x 4 vectors x 16 bytes.
BLOCK_BYTES = THREADS * VECTORS_PER_THREAD * 16
CHAINS = 8
# Multiplied with a vector's hash for its second to fourth word; odd, so that no information is lost.
WORD_FACTORS = (1, 0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35)
WEIGHT_SEED = 0x5BD1E995
MASK = 0xFFFFFFFF
HEADER = ".version {version}\n.target {target}\n.address_size 64\n"


def mix(value: int) -> int:
    """Return a 32-bit hash (Wellons' lowbias32), as the kernels compute it."""
    value &= MASK
    value = ((value ^ (value >> 16)) * 0x7FEB352D) & MASK
    value = ((value ^ (value >> 15)) * 0x846CA68B) & MASK
    return value ^ (value >> 16)


def emit_mix(register: str, scratch: str = "%h") -> str:
    """Return the instructions that hash a register in place."""
    return f"""
  shr.u32 {scratch}, {register}, 16;
  xor.b32 {register}, {register}, {scratch};
  mul.lo.u32 {register}, {register}, 0x7feb352d;
  shr.u32 {scratch}, {register}, 15;
  xor.b32 {register}, {register}, {scratch};
  mul.lo.u32 {register}, {register}, 0x846ca68b;
  shr.u32 {scratch}, {register}, 16;
  xor.b32 {register}, {register}, {scratch};"""


def emit_entry(name: str, parameters: str, body: str) -> str:
    """Return a kernel of 256 threads; ``parameters`` are words such as ``u64:data u32:count``."""
    pairs = [word.split(":") for word in parameters.split()]
    declared = ",\n".join(f"  .param .{kind} {key}" for kind, key in pairs)
    loads = "\n".join(f"  ld.param.{kind} {'%' + key}, [{key}];" for kind, key in pairs)
    registers = "\n".join(f"  .reg .{kind.replace('u', 'b')} %{key};" for kind, key in pairs)
    return f"""
.visible .entry {name}(
{declared}
)
.maxntid {THREADS}, 1, 1
{{
  .reg .pred %p<8>;
  .reg .b32 %h, %r<64>;
  .reg .b64 %d<32>;
  .reg .f32 %f<32>;
  .reg .f64 %g<32>;
  .reg .b16 %s<8>;
{registers}
{loads}
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
{body}
  ret;
}}
"""


# %r2: the element's index, a pair of operands at a time; a small integer or a random mantissa, exact in 16 bits.
def emit_operand(half: int, kind: str) -> str:
    """Return the instructions that compute one 16-bit operand into %s{half}."""
    convert = f"cvt.rn.f16.f32 %s{half}, %f0;"
    if kind == "bf16":
        convert = f"mov.b32 %r6, %f0;\n  shr.u32 %r6, %r6, 16;\n  cvt.u16.u32 %s{half}, %r6;"
    return f"""
  add.u32 %r3, %r2, {half};
  add.u32 %r3, %r3, %seed;{emit_mix("%r3")}
  shr.u32 %r4, %r3, 28;
  sub.s32 %r4, %r4, 8;
  cvt.rn.f32.s32 %f0, %r4;
  and.b32 %r5, %r3, 0x80ffe000;
  or.b32 %r5, %r5, 0x3f000000;
  mov.b32 %f1, %r5;
  setp.ne.u32 %p0, %random, 0;
  selp.f32 %f0, %f1, %f0, %p0;
  {convert}"""


def emit_operand_kernel(kind: str) -> str:
    """Return the kernel that fills a matrix with operands: a pair a thread."""
    body = f"""
  mad.lo.u32 %r2, %r1, {THREADS}, %r0;
  mul.wide.u32 %d0, %r2, 4;
  add.u64 %d0, %d0, %data;
  shl.b32 %r2, %r2, 1;{emit_operand(0, kind)}{emit_operand(1, kind)}
  mov.b32 %r7, {{%s0, %s1}};
  st.global.u32 [%d0], %r7;"""
    return emit_entry(f"fill_operands_{kind}", "u64:data u32:seed u32:random", body)


# A row of B (one output column) weighs mix(j + WEIGHT_SEED) | 1. Exact arithmetic modulo 2^32 throughout:
# C w = A (B w) holds in every row, and any single wrong element breaks it, for an odd weight divides nothing out.
WEIGH_B = emit_entry(
    "weigh_b",
    "u64:out u32:rows u32:depth u32:seed",
    f"""
  mad.lo.u32 %r2, %r1, {THREADS}, %r0;
  setp.ge.u32 %p0, %r2, %depth;
  @%p0 ret;
  mov.u32 %r8, 0;
  mov.u32 %r9, 0;
  add.u32 %r10, %r2, %seed;
NEXT_ROW:
  mov.u32 %r3, %r10;{emit_mix("%r3")}
  shr.u32 %r4, %r3, 28;
  sub.s32 %r4, %r4, 8;
  add.u32 %r5, %r9, {WEIGHT_SEED};{emit_mix("%r5")}
  or.b32 %r5, %r5, 1;
  mad.lo.u32 %r8, %r4, %r5, %r8;
  add.u32 %r10, %r10, %depth;
  add.u32 %r9, %r9, 1;
  setp.lt.u32 %p0, %r9, %rows;
  @%p0 bra NEXT_ROW;
  mul.wide.u32 %d0, %r2, 4;
  add.u64 %d0, %d0, %out;
  st.global.u32 [%d0], %r8;""",
)

WEIGH_A = emit_entry(
    "weigh_a",
    "u64:out u64:weights u32:rows u32:depth u32:seed",
    f"""
  mad.lo.u32 %r2, %r1, {THREADS}, %r0;
  setp.ge.u32 %p0, %r2, %rows;
  @%p0 ret;
  mov.u32 %r8, 0;
  mov.u32 %r9, 0;
  mul.lo.u32 %r10, %r2, %depth;
  add.u32 %r10, %r10, %seed;
  mov.u64 %d1, %weights;
NEXT_COLUMN:
  add.u32 %r3, %r10, %r9;{emit_mix("%r3")}
  shr.u32 %r4, %r3, 28;
  sub.s32 %r4, %r4, 8;
  ld.global.u32 %r5, [%d1];
  mad.lo.u32 %r8, %r4, %r5, %r8;
  add.u64 %d1, %d1, 4;
  add.u32 %r9, %r9, 1;
  setp.lt.u32 %p0, %r9, %depth;
  @%p0 bra NEXT_COLUMN;
  mul.wide.u32 %d0, %r2, 4;
  add.u64 %d0, %d0, %out;
  st.global.u32 [%d0], %r8;""",
)

# One block a row of C: the weighed sum of its elements is added to sums[row]; elements that are not integers count.
WEIGH_C = emit_entry(
    "weigh_c",
    "u64:matrix u64:sums u64:result u32:columns",
    f"""
  mul.wide.u32 %d0, %r1, %columns;
  shl.b64 %d0, %d0, 2;
  add.u64 %d0, %d0, %matrix;
  mov.u32 %r2, %r0;
  mov.u32 %r8, 0;
NEXT_ELEMENT:
  setp.ge.u32 %p0, %r2, %columns;
  @%p0 bra ROW_END;
  mul.wide.u32 %d1, %r2, 4;
  add.u64 %d1, %d1, %d0;
  ld.global.f32 %f0, [%d1];
  cvt.rzi.s32.f32 %r3, %f0;
  cvt.rn.f32.s32 %f1, %r3;
  setp.neu.f32 %p1, %f0, %f1;
  mov.u64 %d2, 1;
  @%p1 red.global.add.u64 [%result], %d2;
  add.u32 %r5, %r2, {WEIGHT_SEED};{emit_mix("%r5")}
  or.b32 %r5, %r5, 1;
  mad.lo.u32 %r8, %r3, %r5, %r8;
  add.u32 %r2, %r2, {THREADS};
  bra NEXT_ELEMENT;
ROW_END:
  mul.wide.u32 %d3, %r1, 4;
  add.u64 %d3, %d3, %sums;
  red.global.add.u32 [%d3], %r8;""",
)


def emit_vector_loop(body: str) -> str:
    """Return a body repeated for a thread's four vectors; %r2 is the vector's index, %d0 its offset."""
    return "".join(
        f"""
  mad.lo.u32 %r2, %r1, {THREADS * VECTORS_PER_THREAD}, %r0;
  add.u32 %r2, %r2, {THREADS * part};
  mul.wide.u32 %d0, %r2, 16;{body.replace("PART", str(part))}"""
        for part in range(VECTORS_PER_THREAD)
    )


EMIT_PATTERN = "".join(
    [
        "\n  add.u32 %r3, %r2, %seed;",
        emit_mix("%r3"),
        *(
            f"\n  mul.lo.u32 %r{4 + word}, %r3, {factor:#x};"
            f"\n  and.b32 %r{4 + word}, %r{4 + word}, %keep;\n  xor.b32 %r{4 + word}, %r{4 + word}, %flip;"
            for word, factor in enumerate(WORD_FACTORS)
        ),
    ]
)

FILL = emit_entry(
    "fill_pattern",
    "u64:data u32:seed u32:keep u32:flip",
    emit_vector_loop(
        f"""{EMIT_PATTERN}
  add.u64 %d1, %d0, %data;
  st.global.v4.u32 [%d1], {{%r4, %r5, %r6, %r7}};"""
    ),
)

# result[0] counts wrong vectors, result[1] is the lowest wrong one, result[2] collects the bits that differ.
EMIT_REPORT = """
  mov.u64 %d2, 1;
  @%p1 red.global.add.u64 [%result], %d2;
  cvt.u64.u32 %d3, %r2;
  @%p1 red.global.min.u64 [%result+8], %d3;
  cvt.u64.u32 %d4, %r12;
  @%p1 red.global.or.b64 [%result+16], %d4;"""


def emit_loads(register: int, base: str) -> str:
    """Return the loads of a thread's four vectors, all in flight before the first is used."""
    loads = [
        f"  ld.global.v4.u32 {{{', '.join(f'%r{register + 4 * part + word}' for word in range(4))}}}, "
        f"[%d5+{part * THREADS * 16}];"
        for part in range(VECTORS_PER_THREAD)
    ]
    return "\n".join(
        [
            f"\n  mad.lo.u32 %r2, %r1, {THREADS * VECTORS_PER_THREAD}, %r0;",
            "  mul.wide.u32 %d0, %r2, 16;",
            f"  add.u64 %d5, %d0, %{base};",
            *loads,
        ]
    )


def emit_differences(left: int, right: Sequence[str]) -> str:
    """Return the instructions that set %p1 where four words differ, and collect the bits in %r12."""
    lines = ["\n  mov.u32 %r12, 0;"]
    for word in range(4):
        lines += [f"  xor.b32 %r13, %r{left + word}, {right[word]};", "  or.b32 %r12, %r12, %r13;"]
    return "\n".join([*lines, "  setp.ne.u32 %p1, %r12, 0;"])


VERIFY = emit_entry(
    "verify_pattern",
    "u64:data u64:result u32:seed u32:keep u32:flip",
    emit_loads(16, "data")
    + "".join(
        f"\n  mad.lo.u32 %r2, %r1, {THREADS * VECTORS_PER_THREAD}, %r0;\n  add.u32 %r2, %r2, {THREADS * part};"
        + EMIT_PATTERN
        + emit_differences(16 + 4 * part, ["%r4", "%r5", "%r6", "%r7"])
        + EMIT_REPORT
        for part in range(VECTORS_PER_THREAD)
    ),
)

COMPARE = emit_entry(
    "compare_words",
    "u64:left u64:right u64:result",
    emit_loads(16, "left")
    + emit_loads(32, "right")
    + "".join(
        f"\n  mad.lo.u32 %r2, %r1, {THREADS * VECTORS_PER_THREAD}, %r0;\n  add.u32 %r2, %r2, {THREADS * part};"
        + emit_differences(16 + 4 * part, [f"%r{32 + 4 * part + word}" for word in range(4)])
        + EMIT_REPORT
        for part in range(VECTORS_PER_THREAD)
    ),
)

COPY = emit_entry(
    "copy_vectors",
    "u64:source u64:target",
    emit_loads(16, "source")
    + "\n  add.u64 %d6, %d0, %target;\n"
    + "\n".join(
        f"  st.global.v4.u32 [%d6+{part * THREADS * 16}], "
        f"{{{', '.join(f'%r{16 + 4 * part + word}' for word in range(4))}}};"
        for part in range(VECTORS_PER_THREAD)
    ),
)

# A sum over all words, each weighed by its place: two GPUs' results are compared by it.
CHECKSUM = emit_entry(
    "sum_words",
    "u64:data u64:result",
    emit_loads(16, "data")
    + "\n  mov.u64 %d7, 0;"
    + "".join(
        f"\n  mad.lo.u32 %r2, %r1, {THREADS * VECTORS_PER_THREAD}, %r0;\n  add.u32 %r2, %r2, {THREADS * part};"
        f"\n  mov.u32 %r3, %r2;{emit_mix('%r3')}\n  or.b32 %r3, %r3, 1;"
        + "".join(
            f"\n  mul.lo.u32 %r4, %r3, {factor:#x};\n  mul.wide.u32 %d8, %r4, %r{16 + 4 * part + word};"
            "\n  add.u64 %d7, %d7, %d8;"
            for word, factor in enumerate(WORD_FACTORS)
        )
        for part in range(VECTORS_PER_THREAD)
    )
    + "\n  red.global.add.u64 [%result], %d7;",
)


def emit_orbit(kind: str) -> str:
    """Return the kernel that follows eight chaotic orbits x = x * x + c by FMAs alone.

    IEEE 754 defines an FMA exactly, so every thread and the controller agree in all bits; one wrong bit grows.
    """
    name, size = ("%f", 4) if kind == "f32" else ("%g", 8)
    bits, number = ("b32", "%r") if kind == "f32" else ("b64", "%d")
    count = f"{number}20"
    starts = "\n".join(
        f"  ld.global.{kind} {name}{chain}, [%starts+{chain * size}];" for chain in range(CHAINS)
    )
    steps = "\n".join(
        f"  fma.rn.{kind} {name}{chain}, {name}{chain}, {name}{chain}, {name}8;" for chain in range(CHAINS)
    )
    checks = "\n".join(
        f"""  ld.global.{bits} {count}, [%expected+{chain * size}];
  mov.{bits} {number}21, {name}{chain};
  setp.ne.{bits} %p1, {count}, {number}21;
  @%p1 red.global.add.u64 [%result], %d2;"""
        for chain in range(CHAINS)
    )
    body = f"""
{starts}
  ld.global.{kind} {name}8, [%starts+{CHAINS * size}];
  mov.u32 %r9, 0;
STEP:
{steps}
  add.u32 %r9, %r9, 1;
  setp.lt.u32 %p0, %r9, %steps;
  @%p0 bra STEP;
  mov.u64 %d2, 1;
{checks}"""
    return emit_entry(f"orbit_{kind}", "u64:starts u64:expected u64:result u32:steps", body)


def round_to_f32(value: Fraction) -> Fraction:
    """Return a fraction rounded to single precision, to nearest, ties to even."""
    number = float(value)
    (single,) = struct.unpack("<f", struct.pack("<f", number))
    # Rounding twice is wrong only where the first rounding made a tie: then the rest decides.
    if (
        Fraction(number) != value
        and abs(Fraction(number) - Fraction(single)) * (1 << 24) >= abs(Fraction(single)) / 2
    ):
        toward = math.inf if value > Fraction(number) else -math.inf
        (single,) = struct.unpack("<f", struct.pack("<f", math.nextafter(number, toward)))
    return Fraction(single)


def compute_orbits(kind: str, steps: int) -> tuple[bytes, bytes]:
    """Return the orbits' starts with the constant, and their ends, as the kernels read them."""
    letter = "f" if kind == "f32" else "d"

    def round_number(value: Fraction) -> Fraction:
        return round_to_f32(value) if kind == "f32" else Fraction(float(value))

    starts = [Fraction(chain + 1, 16) for chain in range(CHAINS)]
    constant = round_number(Fraction(-19, 10))
    ends = []
    for start in starts:
        x = start
        for _ in range(steps):
            x = round_number(x * x + constant)
        ends.append(x)
    return (
        struct.pack(f"<{CHAINS + 1}{letter}", *map(float, [*starts, constant])),
        struct.pack(f"<{CHAINS}{letter}", *map(float, ends)),
    )


def build_basic_module(target: str = "sm_70", version: str = "6.0") -> str:
    """Return all kernels of this file as one module."""
    return HEADER.format(version=version, target=target) + "".join(
        [
            emit_operand_kernel("f16"), emit_operand_kernel("bf16"), WEIGH_B, WEIGH_A, WEIGH_C,
            FILL, VERIFY, COMPARE, COPY, CHECKSUM, emit_orbit("f32"), emit_orbit("f64"),
        ]
    )  # fmt: skip
