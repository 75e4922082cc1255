"""The PTX kernel for C = A B^T on Hopper: ``wgmma`` instructions fed by the tensor copy engine.

One warp copies slices of A and B to shared memory; two groups of four warps multiply them. Barriers in shared
memory hand the stages over: ``full`` when a slice has arrived, ``empty`` when both groups have read it.
"""

from __future__ import annotations

from .ptx_basic import HEADER
from .ptx_matmul import MatmulKernel, emit_tile_place

ROWS, COLUMNS, DEPTH, STAGES = 128, 256, 64, 4
GROUP_ROWS = 64
A_BYTES, B_BYTES = ROWS * DEPTH * 2, COLUMNS * DEPTH * 2
STAGE_BYTES = A_BYTES + B_BYTES
BARRIERS = STAGES * STAGE_BYTES
# A copy's box must start at a multiple of 1,024 bytes, which the driver does not promise for shared memory.
SHARED_BYTES = BARRIERS + 16 * STAGES + 1024
THREADS = 384
SUMS = GROUP_ROWS * COLUMNS // 128
# Shared memory as wgmma reads it: rows of 128 bytes, swizzled by 128 bytes, eight rows (1,024 bytes) apart.
DESCRIPTOR = (1 << 62) | ((1024 >> 4) << 32) | (1 << 16)


def emit_wait(label: str, barrier: str, phase: str) -> str:
    """Return the loop that waits until a barrier has left a phase."""
    return f"""
{label}:
  mbarrier.try_wait.parity.shared.b64 %p0, [{barrier}], {phase};
  @!%p0 bra {label};"""


def emit_copy(target: str, tensor: str, row: str) -> str:
    """Return one box's copy: columns from %r30, rows from a register; the stage's barrier counts its bytes."""
    return (
        "  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[{target}], [{tensor}, {{%r30, {row}}}], [%r23];"
    )


def emit_producer() -> str:
    """Return the copying thread's loop."""
    return f"""
  mov.u32 %r20, 0;
  mov.u32 %r21, 0;
  mov.u32 %r22, 1;
  mov.u32 %r30, 0;
COPY_NEXT:
  shl.b32 %r23, %r21, 3;
  add.u32 %r23, %r23, %r16;
  add.u32 %r24, %r23, {8 * STAGES};{emit_wait("WAIT_EMPTY", "%r24", "%r22")}
  mbarrier.arrive.expect_tx.shared.b64 %d9, [%r23], {STAGE_BYTES};
  mad.lo.u32 %r25, %r21, {STAGE_BYTES}, %r15;
{emit_copy("%r25", "%d0", "%r10")}
  add.u32 %r25, %r25, {A_BYTES};
{emit_copy("%r25", "%d1", "%r11")}
  add.u32 %r30, %r30, {DEPTH};
  add.u32 %r21, %r21, 1;
  setp.eq.u32 %p1, %r21, {STAGES};
  selp.u32 %r21, 0, %r21, %p1;
  @%p1 xor.b32 %r22, %r22, 1;
  add.u32 %r20, %r20, 1;
  setp.lt.u32 %p1, %r20, %r14;
  @%p1 bra COPY_NEXT;
  ret;"""


def emit_consumer(kind: str) -> str:
    """Return the multiplying groups' loop; a stage is handed back one slice later, when its products are done."""
    sums = "{" + ", ".join(f"%f{number}" for number in range(SUMS)) + "}"
    zeros = "\n".join(f"  mov.f32 %f{number}, 0f00000000;" for number in range(SUMS))
    products = "\n".join(
        f"""  add.s64 %d6, %d4, {2 * step};
  add.s64 %d7, %d5, {2 * step};
  wgmma.mma_async.sync.aligned.m64n{COLUMNS}k16.f32.{kind}.{kind} {sums}, %d6, %d7, %p2, 1, 1, 0, 0;"""
        for step in range(DEPTH // 16)
    )
    return f"""
{zeros}
  setp.eq.u32 %p2, %r0, %r0;
  mov.u32 %r20, 0;
  mov.u32 %r21, 0;
  mov.u32 %r22, 0;
  mov.u32 %r27, 0;
MULTIPLY_NEXT:
  shl.b32 %r23, %r21, 3;
  add.u32 %r23, %r23, %r16;{emit_wait("WAIT_FULL", "%r23", "%r22")}
  mad.lo.u32 %r25, %r21, {STAGE_BYTES}, %r15;
  mad.lo.u32 %r26, %r18, {GROUP_ROWS * DEPTH * 2}, %r25;
  shr.u32 %r26, %r26, 4;
  cvt.u64.u32 %d4, %r26;
  or.b64 %d4, %d4, {DESCRIPTOR};
  add.u32 %r25, %r25, {A_BYTES};
  shr.u32 %r25, %r25, 4;
  cvt.u64.u32 %d5, %r25;
  or.b64 %d5, %d5, {DESCRIPTOR};
  wgmma.fence.sync.aligned;
{products}
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 1;
  setp.eq.u32 %p1, %r20, 0;
  @%p1 bra NOT_YET;
  @%p3 mbarrier.arrive.shared.b64 %d9, [%r27];
NOT_YET:
  add.u32 %r27, %r23, {8 * STAGES};
  add.u32 %r21, %r21, 1;
  setp.eq.u32 %p1, %r21, {STAGES};
  selp.u32 %r21, 0, %r21, %p1;
  @%p1 xor.b32 %r22, %r22, 1;
  add.u32 %r20, %r20, 1;
  setp.lt.u32 %p1, %r20, %r14;
  @%p1 bra MULTIPLY_NEXT;
  wgmma.wait_group.sync.aligned 0;"""


def emit_stores() -> str:
    """Return the stores of a group's sums: a warp holds 16 rows, a thread two of them."""
    lines = [
        f"  mul.lo.u32 %r40, %tiles, {COLUMNS};",
        "  and.b32 %r41, %r0, 127;",
        "  shr.u32 %r42, %r41, 5;",
        "  and.b32 %r43, %r41, 31;",
        "  shl.b32 %r44, %r42, 4;",
        "  shr.u32 %r45, %r43, 2;",
        "  add.u32 %r44, %r44, %r45;",
        f"  mad.lo.u32 %r44, %r18, {GROUP_ROWS}, %r44;",
        "  add.u32 %r44, %r44, %r10;",
        "  and.b32 %r45, %r43, 3;",
        "  shl.b32 %r45, %r45, 1;",
        "  add.u32 %r45, %r45, %r11;",
        "  cvt.u64.u32 %d10, %r45;",
        "  mad.wide.u32 %d10, %r44, %r40, %d10;",
        "  shl.b64 %d10, %d10, 2;",
        "  add.u64 %d10, %d10, %c;",
        "  mul.wide.u32 %d11, %r40, 32;",
        "  add.u64 %d11, %d11, %d10;",
    ]
    for column in range(COLUMNS // 8):
        first = 4 * column
        lines += [
            f"  st.global.v2.f32 [%d10+{32 * column}], {{%f{first}, %f{first + 1}}};",
            f"  st.global.v2.f32 [%d11+{32 * column}], {{%f{first + 2}, %f{first + 3}}};",
        ]
    return "\n".join(lines)


def build_hopper_kernel(kind: str) -> MatmulKernel:
    """Return the kernel for bf16 or f16 operands; A and B come as tensor maps."""
    barriers = "\n".join(
        f"  mbarrier.init.shared.b64 [%r16+{8 * stage}], 1;\n"
        f"  mbarrier.init.shared.b64 [%r16+{8 * (STAGES + stage)}], 2;"
        for stage in range(STAGES)
    )
    name = f"matmul_{kind}_sm_90a"
    ptx = f"""{HEADER.format(version="8.0", target="sm_90a")}
.extern .shared .align 1024 .b8 smem[];
.visible .entry {name}(
  .param .align 64 .b8 a[128],
  .param .align 64 .b8 b[128],
  .param .u64 c,
  .param .u32 rowtiles,
  .param .u32 tiles,
  .param .u32 depth
)
.maxntid {THREADS}, 1, 1
{{
  .reg .pred %p<6>;
  .reg .b32 %r<64>, %rowtiles, %tiles, %depth;
  .reg .b64 %d<16>, %c;
  .reg .f32 %f<{SUMS}>;
  mov.b64 %d0, a;
  cvta.param.u64 %d0, %d0;
  mov.b64 %d1, b;
  cvta.param.u64 %d1, %d1;
  ld.param.u64 %c, [c];
  ld.param.u32 %rowtiles, [rowtiles];
  ld.param.u32 %tiles, [tiles];
  ld.param.u32 %depth, [depth];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  shr.u32 %r14, %depth, 6;
{emit_tile_place(ROWS, COLUMNS)}
  mov.u32 %r15, smem;
  add.u32 %r15, %r15, 1023;
  and.b32 %r15, %r15, -1024;
  add.u32 %r16, %r15, {BARRIERS};
  setp.ne.u32 %p1, %r0, 0;
  @%p1 bra PREPARED;
{barriers}
  fence.mbarrier_init.release.cluster;
  fence.proxy.async;
PREPARED:
  bar.sync 0;
  shr.u32 %r17, %r0, 7;
  setp.ne.u32 %p1, %r17, 0;
  @%p1 bra MULTIPLY;
  setp.ne.u32 %p1, %r0, 0;
  @%p1 ret;
{emit_producer()}
MULTIPLY:
  sub.u32 %r18, %r17, 1;
  and.b32 %r19, %r0, 127;
  setp.eq.u32 %p3, %r19, 0;
{emit_consumer(kind)}
{emit_stores()}
  ret;
}}
"""
    return MatmulKernel(name, kind, ptx, ROWS, COLUMNS, THREADS, SHARED_BYTES, DEPTH, uses_maps=True)
