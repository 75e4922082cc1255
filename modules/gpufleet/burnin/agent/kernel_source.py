"""The kernels' files: PTX and SPIR-V that compilers made of the sources beside them, and the text of HIP's kernels."""

from __future__ import annotations

import pkgutil

from .card_device import DEPTH, RANDOM_FLOATS, SMALL_INTEGERS, STRIDE, TILE, WIDTH
from .kernel_values import CHAINS, THREADS, VECTORS_PER_THREAD, WEIGHT_SEED, WORD_FACTORS

# What every source uses without defining it, so that kernels and host cannot differ.
DEFINITIONS = {
    "THREADS": THREADS, "VECTORS": VECTORS_PER_THREAD, "WEIGHT_SEED": WEIGHT_SEED, "CHAINS": CHAINS,
    **{f"FACTOR_{number}": WORD_FACTORS[number] for number in (1, 2, 3)},
    "TILE": TILE, "DEPTH": DEPTH, "WIDTH": WIDTH, "STRIDE": STRIDE,
    "SMALL_INTEGERS": SMALL_INTEGERS, "RANDOM_FLOATS": RANDOM_FLOATS,
}  # fmt: skip
# Kernels of cards without CUDA, for Vulkan and HIP.
CARD_KERNELS = (
    "fill_pattern", "verify_pattern", "compare_vectors", "copy_vectors", "sum_vectors", "fill_operands",
    *(f"{name}_{kind}" for kind in ("u32", "f32") for name in ("multiply", "weigh_a", "weigh_b", "weigh_c")),
)  # fmt: skip
HIP_OPTIONS = ("-O3", "-ffp-contract=off")


def read_kernel_file(name: str) -> bytes:
    """Return a file of the folder ``kernels``, also out of the agent's archive."""
    content = pkgutil.get_data(__package__, f"kernels/{name}")
    assert content is not None, name  # noqa: S101 - every loader of files and archives reads data
    return content


def build_hip_source() -> str:
    """Return the kernels' text for HIP, with its constants."""
    constants = "".join(f"#define {name} {value}u\n" for name, value in DEFINITIONS.items())
    return constants + read_kernel_file("card.hip").decode()
