"""Which kernels a GPU of NVIDIA runs, by its compute capability: each matrix kernel is a file of PTX.

They compute C = A B^T on tensor cores, 16-bit operands summed in 32 bits; A and B are row-major. The driver compiles
the text on the node. docs/decisions/0016 says why these files are written by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

from .kernel_source import read_kernel_file

# The kernels of `-p gpu_kernels=all`; otherwise the fastest one for each kind of operand runs.
ALL = "all"


@dataclass(frozen=True)
class MatmulKernel:
    """A kernel for operands of a kind, with its needs.

    A block computes ``rows`` x ``columns`` of C, ``depth`` elements of the sum at a time. With ``uses_maps``
    A and B come as tensor maps, whose boxes are a slice of ``depth``.
    """

    target: str
    kind: str
    rows: int
    columns: int
    threads: int
    shared_bytes: int
    depth: int = 32
    uses_maps: bool = False

    @property
    def name(self) -> str:
        """The entry's name."""
        return f"matmul_{self.kind}_{self.target}"

    @property
    def ptx(self) -> str:
        """The text; f16 and bf16 differ in nothing but their names."""
        return read_kernel_file(f"matmul_{self.target}.ptx").decode().replace("bf16", self.kind)


# By the first capability that has a generation's instructions; those of 9.0a are in no other part.
GENERATIONS = {
    (9, 0): [
        MatmulKernel("sm_90a", kind, 128, 256, 384, 197_696, 64, uses_maps=True) for kind in ("bf16", "f16")
    ],
    (8, 0): [MatmulKernel("sm_80", kind, 128, 256, 256, 98_304) for kind in ("bf16", "f16")],
    (7, 5): [MatmulKernel("sm_75", "f16", 128, 128, 256, 32_768)],
    (7, 0): [MatmulKernel("sm_70", "f16", 128, 128, 256, 40_960)],
}


def list_matmul_kernels(capability: tuple[int, int], choice: str = "") -> tuple[list[MatmulKernel], str]:
    """Return the kernels for a capability, and why there is none."""
    generations = [
        kernels
        for oldest, kernels in GENERATIONS.items()
        if (capability == oldest if oldest == (9, 0) else capability >= oldest)
    ]
    if not generations:
        return [], f"no kernel for compute capability {capability[0]}.{capability[1]}"
    chosen = generations if choice == ALL else generations[:1]
    return [kernel for kernels in chosen for kernel in kernels], ""
