"""Which matrix kernels a GPU runs, by its compute capability."""

from __future__ import annotations

from .ptx_hopper import build_hopper_kernel
from .ptx_matmul import MatmulKernel, build_ampere_kernel, build_turing_kernel
from .ptx_volta import build_volta_kernel

# The kernels of `-p gpu_kernels=all`; otherwise the fastest one for each kind of operand runs.
ALL = "all"


def list_matmul_kernels(capability: tuple[int, int], choice: str = "") -> tuple[list[MatmulKernel], str]:
    """Return the kernels for a capability, and why there is none."""
    generations = [
        [build_hopper_kernel(kind) for kind in ("bf16", "f16")] if capability == (9, 0) else [],
        [build_ampere_kernel(kind) for kind in ("bf16", "f16")] if capability >= (8, 0) else [],
        [build_turing_kernel()] if capability >= (7, 5) else [],
        [build_volta_kernel()] if capability >= (7, 0) else [],
    ]
    kernels = [kernel for generation in generations for kernel in generation]
    if not kernels:
        return [], f"no kernel for compute capability {capability[0]}.{capability[1]}"
    if choice == ALL:
        return kernels, ""
    return next(generation for generation in generations if generation), ""
