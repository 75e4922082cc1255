"""PTX kernels for C = A B^T on tensor cores, 16-bit operands summed in 32 bits; A and B are row-major.

One kernel serves sm_80 and newer (asynchronous copies), one sm_75 (copies through registers); the driver compiles
them for whatever the node has. ``ptx_volta`` serves sm_70, ``ptx_hopper`` has Hopper's own instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from .ptx_basic import HEADER

THREADS = 256
DEPTH = 32  # elements of the sum that one stage holds: rows of 64 bytes
ROW_BYTES = 2 * DEPTH
# Blocks run in groups of this many rows of tiles, so that what they share stays in the L2 cache.
GROUP_ROWS = 16


@dataclass(frozen=True)
class MatmulKernel:
    """A kernel with its tile (rows and columns of C a block computes) and needs."""

    name: str
    kind: str
    ptx: str
    rows: int
    columns: int
    threads: int
    shared_bytes: int
    depth: int = DEPTH
    uses_maps: bool = False


@dataclass(frozen=True)
class TileShape:
    """A block's tile, cut into warps of ``warp_rows`` x ``warp_columns``."""

    rows: int
    columns: int
    warp_rows: int
    warp_columns: int
    stages: int
    # More than 64 bytes: rows are padded, in place of swizzled, for instructions that take a row's length.
    row_bytes: int = ROW_BYTES

    @property
    def stage_bytes(self) -> int:
        """Bytes of one stage: a slice of A and one of B."""
        return (self.rows + self.columns) * self.row_bytes


AMPERE, TURING = TileShape(128, 256, 64, 64, 4), TileShape(128, 128, 64, 32, 2)


def emit_tile_place(rows: int, columns: int) -> str:
    """Return the instructions that turn the block's number into its tile: %r10 first row, %r11 first column.

    Needs %tiles (tiles along a row of C) and %rowtiles; %r1 is the block's number.
    """
    return f"""
  mul.lo.u32 %r2, %tiles, {GROUP_ROWS};
  div.u32 %r3, %r1, %r2;
  mul.lo.u32 %r4, %r3, %r2;
  sub.u32 %r4, %r1, %r4;
  mul.lo.u32 %r5, %r3, {GROUP_ROWS};
  sub.u32 %r6, %rowtiles, %r5;
  min.u32 %r6, %r6, {GROUP_ROWS};
  div.u32 %r7, %r4, %r6;
  mul.lo.u32 %r8, %r7, %r6;
  sub.u32 %r8, %r4, %r8;
  add.u32 %r8, %r8, %r5;
  mul.lo.u32 %r10, %r8, {rows};
  mul.lo.u32 %r11, %r7, {columns};"""


PARAMETERS = """  .param .u64 a,
  .param .u64 b,
  .param .u64 c,
  .param .u32 rowtiles,
  .param .u32 tiles,
  .param .u32 depth"""


def emit_load_addresses(shape: TileShape) -> str:
    """Return the addresses of a thread's 16-byte chunks: %d10 in A, %d11 in B, %r20 its place in a stage.

    Chunk c of row r is kept at place c ^ (r / 2 % 4), so that ldmatrix meets no bank twice.
    """
    swizzle = "shr.u32 %r14, %r12, 1;\n  and.b32 %r14, %r14, 3;\n  xor.b32 %r14, %r14, %r13;"
    if shape.row_bytes != ROW_BYTES:
        swizzle = "mov.u32 %r14, %r13;"
    return f"""
  shr.u32 %r12, %r0, 2;
  and.b32 %r13, %r0, 3;
  {swizzle}
  shl.b32 %r14, %r14, 4;
  mad.lo.u32 %r20, %r12, {shape.row_bytes}, %r14;
  shl.b32 %r15, %r13, 4;
  cvt.u64.u32 %d12, %r15;
  shl.b32 %r16, %depth, 1;
  add.u32 %r17, %r10, %r12;
  mad.wide.u32 %d10, %r17, %r16, %d12;
  add.u64 %d10, %d10, %a;
  add.u32 %r17, %r11, %r12;
  mad.wide.u32 %d11, %r17, %r16, %d12;
  add.u64 %d11, %d11, %b;
  mul.wide.u32 %d13, %r16, {THREADS // 4};
  mov.u32 %r21, smem;
  add.u32 %r20, %r20, %r21;"""


def list_chunks(shape: TileShape) -> list[tuple[str, int]]:
    """Return a thread's chunks of one stage: the matrix's address register and the place behind %r20."""
    step = THREADS // 4
    a_chunks = [("%d10", part * step * shape.row_bytes) for part in range(shape.rows // step)]
    b_chunks = [
        ("%d11", (shape.rows + part * step) * shape.row_bytes) for part in range(shape.columns // step)
    ]
    return a_chunks + b_chunks


def emit_async_stage(shape: TileShape) -> str:
    """Return the copies of one stage to %r22, and the step to the next slice."""
    lines, previous = [], ""
    for base, place in list_chunks(shape):
        lines.append(f"  mov.u64 %d14, {base};" if base != previous else "  add.u64 %d14, %d14, %d13;")
        lines.append(f"  cp.async.cg.shared.global [%r22+{place}], [%d14], 16;")
        previous = base
    return "\n".join([*lines, f"  add.u64 %d10, %d10, {ROW_BYTES};", f"  add.u64 %d11, %d11, {ROW_BYTES};"])


def emit_register_loads(shape: TileShape) -> str:
    """Return the loads of one stage into registers %q."""
    lines, previous = [], ""
    for number, (base, _) in enumerate(list_chunks(shape)):
        lines.append(f"  mov.u64 %d14, {base};" if base != previous else "  add.u64 %d14, %d14, %d13;")
        words = ", ".join(f"%q{4 * number + word}" for word in range(4))
        lines.append(f"  ld.global.v4.u32 {{{words}}}, [%d14];")
        previous = base
    return "\n".join([*lines, f"  add.u64 %d10, %d10, {ROW_BYTES};", f"  add.u64 %d11, %d11, {ROW_BYTES};"])


def emit_register_stores(shape: TileShape) -> str:
    """Return the stores of registers %q to the stage at %r22."""
    return "\n".join(
        f"  st.shared.v4.u32 [%r22+{place}], {{{', '.join(f'%q{4 * number + word}' for word in range(4))}}};"
        for number, (_, place) in enumerate(list_chunks(shape))
    )


def emit_fragment_addresses(shape: TileShape) -> str:
    """Return each lane's ldmatrix addresses in a stage: %r30, %r31 for A's and %r32, %r33 for B's two halves."""
    across = shape.columns // shape.warp_columns
    return f"""
  and.b32 %r40, %r0, 31;
  shr.u32 %r41, %r0, 5;
  div.u32 %r42, %r41, {across};
  rem.u32 %r43, %r41, {across};
  mul.lo.u32 %r42, %r42, {shape.warp_rows};
  mul.lo.u32 %r43, %r43, {shape.warp_columns};
  and.b32 %r44, %r40, 15;
  add.u32 %r45, %r42, %r44;
  shr.u32 %r46, %r40, 4;
  shr.u32 %r47, %r45, 1;
  and.b32 %r47, %r47, 3;
  xor.b32 %r48, %r47, %r46;
  shl.b32 %r48, %r48, 4;
  mad.lo.u32 %r30, %r45, {ROW_BYTES}, %r48;
  xor.b32 %r31, %r30, 32;
  and.b32 %r44, %r40, 7;
  shr.u32 %r49, %r40, 4;
  shl.b32 %r49, %r49, 3;
  add.u32 %r44, %r44, %r49;
  add.u32 %r45, %r43, %r44;
  shr.u32 %r46, %r40, 3;
  and.b32 %r46, %r46, 1;
  shr.u32 %r47, %r45, 1;
  and.b32 %r47, %r47, 3;
  xor.b32 %r48, %r47, %r46;
  shl.b32 %r48, %r48, 4;
  add.u32 %r45, %r45, {shape.rows};
  mad.lo.u32 %r32, %r45, {ROW_BYTES}, %r48;
  xor.b32 %r33, %r32, 32;
  mov.u32 %r21, smem;
  add.u32 %r30, %r30, %r21;
  add.u32 %r31, %r31, %r21;
  add.u32 %r32, %r32, %r21;
  add.u32 %r33, %r33, %r21;"""


def emit_products(shape: TileShape, kind: str, step: int) -> str:
    """Return one stage's products: fragments from the stage at offset %r23, sums in %f."""
    lines = []
    row_tiles, column_tiles = shape.warp_rows // 16, shape.warp_columns // 8
    for half in range(2):
        lines += [f"  add.u32 %r34, %r{30 + half}, %r23;", f"  add.u32 %r35, %r{32 + half}, %r23;"]
        lines += [
            f"  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{', '.join(f'%a{4 * row + part}' for part in range(4))}}}, "
            f"[%r34+{row * 16 * ROW_BYTES}];"
            for row in range(row_tiles)
        ]
        lines += [
            f"  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{', '.join(f'%b{4 * pair + part}' for part in range(4))}}}, "
            f"[%r35+{pair * 16 * ROW_BYTES}];"
            for pair in range(column_tiles // 2)
        ]
        for row in range(row_tiles):
            for column in range(column_tiles):
                first = 4 * (row * column_tiles + column)
                sums = "{" + ", ".join(f"%f{first + part}" for part in range(4)) + "}"
                a, b = (
                    [f"%a{4 * row + part}" for part in range(4)],
                    [f"%b{2 * column}", f"%b{2 * column + 1}"],
                )
                parts = (
                    [(f"{{{', '.join(a)}}}", f"{{{', '.join(b)}}}")]
                    if step == 16  # noqa: PLR2004 - the instruction's depth
                    else [(f"{{{a[0]}, {a[1]}}}", f"{{{b[0]}}}"), (f"{{{a[2]}, {a[3]}}}", f"{{{b[1]}}}")]
                )
                lines += [
                    f"  mma.sync.aligned.m16n8k{step}.row.col.f32.{kind}.{kind}.f32 {sums}, {left}, {right}, {sums};"
                    for left, right in parts
                ]
    return "\n".join(lines)


def emit_stores(shape: TileShape) -> str:
    """Return the stores of a warp's sums to C, whose rows hold %r50 elements."""
    lines = [
        f"  mul.lo.u32 %r50, %tiles, {shape.columns};",
        "  shr.u32 %r51, %r40, 2;",
        "  add.u32 %r51, %r51, %r42;",
        "  add.u32 %r51, %r51, %r10;",
        "  and.b32 %r52, %r40, 3;",
        "  shl.b32 %r52, %r52, 1;",
        "  add.u32 %r52, %r52, %r43;",
        "  add.u32 %r52, %r52, %r11;",
        "  cvt.u64.u32 %d20, %r52;",
        "  mad.wide.u32 %d20, %r51, %r50, %d20;",
        "  shl.b64 %d20, %d20, 2;",
        "  add.u64 %d20, %d20, %c;",
        "  mul.wide.u32 %d21, %r50, 32;",
    ]
    column_tiles = shape.warp_columns // 8
    for row in range(shape.warp_rows // 16):
        for half in range(2):
            for column in range(column_tiles):
                first = 4 * (row * column_tiles + column) + 2 * half
                lines.append(f"  st.global.v2.f32 [%d20+{column * 32}], {{%f{first}, %f{first + 1}}};")
            lines.append("  add.u64 %d20, %d20, %d21;")
    return "\n".join(lines)


def emit_async_loop(shape: TileShape, products: str) -> str:
    """Return the pipeline of asynchronous copies: stages ahead of the products."""
    first = "\n".join(
        f"  add.u32 %r22, %r20, {stage * shape.stage_bytes};\n{emit_async_stage(shape)}\n  cp.async.commit_group;"
        for stage in range(shape.stages - 1)
    )
    total = shape.stages * shape.stage_bytes
    return f"""
{first}
  mov.u32 %r23, 0;
  mov.u32 %r24, {(shape.stages - 1) * shape.stage_bytes};
  mov.u32 %r25, {shape.stages - 1};
SLICE:
  cp.async.wait_group {shape.stages - 2};
  bar.sync 0;
  setp.ge.u32 %p1, %r25, %r26;
  @%p1 bra LOADED;
  add.u32 %r22, %r20, %r24;
{emit_async_stage(shape)}
LOADED:
  cp.async.commit_group;
{products}
  add.u32 %r23, %r23, {shape.stage_bytes};
  setp.eq.u32 %p2, %r23, {total};
  selp.u32 %r23, 0, %r23, %p2;
  add.u32 %r24, %r24, {shape.stage_bytes};
  setp.eq.u32 %p2, %r24, {total};
  selp.u32 %r24, 0, %r24, %p2;
  add.u32 %r25, %r25, 1;
  add.u32 %r27, %r26, {shape.stages - 1};
  setp.lt.u32 %p2, %r25, %r27;
  @%p2 bra SLICE;"""


def emit_register_loop(shape: TileShape, products: str) -> str:
    """Return the pipeline for parts without asynchronous copies: the next slice waits in registers."""
    return f"""
{emit_register_loads(shape)}
  mov.u32 %r22, %r20;
{emit_register_stores(shape)}
  mov.u32 %r23, 0;
  mov.u32 %r25, 1;
SLICE:
  bar.sync 0;
  setp.ge.u32 %p1, %r25, %r26;
  @%p1 bra LOADED;
{emit_register_loads(shape)}
LOADED:
{products}
  sub.u32 %r23, {shape.stage_bytes}, %r23;
  add.u32 %r22, %r20, %r23;
  @%p1 bra STORED;
{emit_register_stores(shape)}
STORED:
  add.u32 %r25, %r25, 1;
  setp.le.u32 %p2, %r25, %r26;
  @%p2 bra SLICE;"""


@dataclass(frozen=True)
class Assembly:
    """A kernel's parts that differ between architectures; ``registers`` are the fragments' declarations."""

    target: str
    version: str
    registers: str
    addresses: str
    loop: str
    stores: str


def assemble_kernel(kind: str, shape: TileShape, parts: Assembly) -> MatmulKernel:
    """Return a kernel for 256 threads."""
    sums = shape.warp_rows * shape.warp_columns // 32
    zeros = "\n".join(f"  mov.f32 %f{number}, 0f00000000;" for number in range(sums))
    name = f"matmul_{kind}_{parts.target}"
    ptx = f"""{HEADER.format(version=parts.version, target=parts.target)}
.extern .shared .align 128 .b8 smem[];
.visible .entry {name}(
{PARAMETERS}
)
.maxntid {THREADS}, 1, 1
{{
  .reg .pred %p<4>;
  .reg .b32 %r<64>, %rowtiles, %tiles, %depth;
  .reg .b32 {parts.registers}, %q<{4 * len(list_chunks(shape))}>;
  .reg .b64 %d<32>, %a, %b, %c;
  .reg .f32 %f<{sums}>;
  ld.param.u64 %a, [a];
  ld.param.u64 %b, [b];
  ld.param.u64 %c, [c];
  ld.param.u32 %rowtiles, [rowtiles];
  ld.param.u32 %tiles, [tiles];
  ld.param.u32 %depth, [depth];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  shr.u32 %r26, %depth, 5;
{emit_tile_place(shape.rows, shape.columns)}
{emit_load_addresses(shape)}
{parts.addresses}
{zeros}
{parts.loop}
{parts.stores}
  ret;
}}
"""
    return MatmulKernel(name, kind, ptx, shape.rows, shape.columns, THREADS, shape.stages * shape.stage_bytes)


def build_ampere_kernel(kind: str, shape: TileShape = AMPERE) -> MatmulKernel:
    """Return the kernel of sm_80 and newer, for bf16 or f16."""
    loop = emit_async_loop(shape, emit_products(shape, kind, step=16))
    registers = f"%a<{shape.warp_rows // 4}>, %b<{shape.warp_columns // 4}>"
    parts = Assembly("sm_80", "7.0", registers, emit_fragment_addresses(shape), loop, emit_stores(shape))
    return assemble_kernel(kind, shape, parts)


def build_turing_kernel() -> MatmulKernel:
    """Return the kernel of sm_75: no bf16, no asynchronous copies, products half as deep."""
    shape = TURING
    loop = emit_register_loop(shape, emit_products(shape, "f16", step=8))
    registers = f"%a<{shape.warp_rows // 4}>, %b<{shape.warp_columns // 4}>"
    parts = Assembly("sm_75", "6.5", registers, emit_fragment_addresses(shape), loop, emit_stores(shape))
    return assemble_kernel("f16", shape, parts)
