"""The PTX kernel for C = A B^T on sm_70, whose tensor cores PTX reaches best through ``wmma`` instructions."""

from __future__ import annotations

import itertools

from .ptx_matmul import Assembly, MatmulKernel, TileShape, assemble_kernel, emit_register_loop

ROW_BYTES = 80  # 32 elements and 16 bytes of padding, against bank conflicts
SHAPE = TileShape(128, 128, 64, 32, 2, ROW_BYTES)
TILE = 16
WORDS = 8


def name_registers(letter: str, fragment: int) -> str:
    """Return a fragment's eight registers."""
    return "{" + ", ".join(f"%{letter}{WORDS * fragment + word}" for word in range(WORDS)) + "}"


def emit_fragment_addresses() -> str:
    """Return a warp's addresses in a stage: %r30 in A, %r32 in B; %r42, %r43 are its row and column in the tile."""
    across = SHAPE.columns // SHAPE.warp_columns
    return f"""
  shr.u32 %r41, %r0, 5;
  div.u32 %r42, %r41, {across};
  rem.u32 %r43, %r41, {across};
  mul.lo.u32 %r42, %r42, {SHAPE.warp_rows};
  mul.lo.u32 %r43, %r43, {SHAPE.warp_columns};
  mov.u32 %r21, smem;
  mad.lo.u32 %r30, %r42, {ROW_BYTES}, %r21;
  add.u32 %r44, %r43, {SHAPE.rows};
  mad.lo.u32 %r32, %r44, {ROW_BYTES}, %r21;"""


def emit_products() -> str:
    """Return one stage's products: two steps of 16."""
    rows, columns = SHAPE.warp_rows // TILE, SHAPE.warp_columns // TILE
    lines = ["  add.u32 %r34, %r30, %r23;", "  add.u32 %r35, %r32, %r23;"]
    load = "wmma.load.{}.sync.aligned.{}.m16n16k16.shared.f16"
    for step in range(2):
        places = [(row * TILE * ROW_BYTES + 2 * TILE * step) for row in range(max(rows, columns))]
        lines += [
            f"  {load.format('a', 'row')} {name_registers('a', row)}, [%r34+{places[row]}], {ROW_BYTES // 2};"
            for row in range(rows)
        ]
        lines += [
            f"  {load.format('b', 'col')} {name_registers('b', column)}, [%r35+{places[column]}], {ROW_BYTES // 2};"
            for column in range(columns)
        ]
        for row, column in itertools.product(range(rows), range(columns)):
            sums = name_registers("f", row * columns + column)
            lines.append(
                f"  wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {sums}, {name_registers('a', row)}, "
                f"{name_registers('b', column)}, {sums};"
            )
    return "\n".join(lines)


def emit_stores() -> str:
    """Return the stores of a warp's sums to C, whose rows hold %r50 elements."""
    columns = SHAPE.warp_columns // TILE
    lines = [
        f"  mul.lo.u32 %r50, %tiles, {SHAPE.columns};",
        "  add.u32 %r51, %r42, %r10;",
        "  add.u32 %r52, %r43, %r11;",
        "  cvt.u64.u32 %d20, %r52;",
        "  mad.wide.u32 %d20, %r51, %r50, %d20;",
        "  shl.b64 %d20, %d20, 2;",
        "  add.u64 %d20, %d20, %c;",
        f"  mul.wide.u32 %d21, %r50, {4 * TILE};",
    ]
    for row in range(SHAPE.warp_rows // TILE):
        lines += [
            f"  wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%d20+{4 * TILE * column}], "
            f"{name_registers('f', row * columns + column)}, %r50;"
            for column in range(columns)
        ]
        lines.append("  add.u64 %d20, %d20, %d21;")
    return "\n".join(lines)


def build_volta_kernel() -> MatmulKernel:
    """Return the kernel, for f16 operands."""
    fragments = (SHAPE.warp_rows // TILE, SHAPE.warp_columns // TILE)
    registers = f"%a<{WORDS * fragments[0]}>, %b<{WORDS * fragments[1]}>"
    loop = emit_register_loop(SHAPE, emit_products())
    parts = Assembly("sm_70", "6.3", registers, emit_fragment_addresses(), loop, emit_stores())
    return assemble_kernel("f16", SHAPE, parts)
