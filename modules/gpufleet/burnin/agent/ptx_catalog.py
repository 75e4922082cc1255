"""Which matrix kernels a GPU runs, by its compute capability."""

from __future__ import annotations

from .ptx_hopper import build_hopper_kernel
from .ptx_matmul import AMPERE, TURING, MatmulKernel, build_mma_kernel

# The kernels of `-p gpu_kernels=all`; otherwise the fastest one for each kind of operand runs.
ALL = "all"


def build_ampere_kernel(kind: str) -> MatmulKernel:
    """Return the kernel of sm_80 and newer."""
    return build_mma_kernel(kind, AMPERE, target="sm_80", version="7.0", step=16, is_async=True)


def build_turing_kernel() -> MatmulKernel:
    """Return the kernel of sm_75: no bf16, no asynchronous copies."""
    return build_mma_kernel("f16", TURING, target="sm_75", version="6.5", step=8, is_async=False)


def list_matmul_kernels(capability: tuple[int, int], choice: str = "") -> tuple[list[MatmulKernel], str]:
    """Return the kernels for a capability, and why there is none."""
    hopper = [build_hopper_kernel(kind) for kind in ("bf16", "f16")] if capability == (9, 0) else []
    ampere = [build_ampere_kernel(kind) for kind in ("bf16", "f16")] if capability >= (8, 0) else []
    turing = [build_turing_kernel()] if capability >= (7, 5) else []
    if choice == ALL:
        return [*hopper, *ampere, *turing], ""
    fastest = hopper or ampere or turing
    missing = "" if fastest else f"no kernel for compute capability {capability[0]}.{capability[1]}"
    return fastest, missing
