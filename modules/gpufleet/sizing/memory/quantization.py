"""Quantization formats: bits per weight of each, block scales included."""

from __future__ import annotations

import re
from functools import lru_cache

from gpufleet.catalog.gguf_type import TENSOR_TYPES
from gpufleet.errors import InputError

# GGUF tensor types of weights: weights per block, bytes per block.
GGUF_BLOCKS: dict[str, tuple[int, int]] = {
    name: (weights, size)
    for name, weights, size in TENSOR_TYPES.values()
    if name not in {"f64", "i8", "i16", "i32", "i64"}
}
# Other formats: bits per weight of a quantised matrix.
# int4: group of 128 with a 16-bit scale and a 4-bit zero (GPTQ, AWQ); gN: a group of N.
# nf4: 4 bits, one 8-bit scale per 64 and one 32-bit scale per 256 of those (QLoRA, double quantisation);
# nf4-single: one 32-bit scale per 64. fp8, int8: one 16-bit scale per row is below a thousandth.
BITS_PER_WEIGHT: dict[str, float] = {
    "f64": 64.0,
    "tf32": 32.0,
    "fp8": 8.0,
    "int8": 8.0,
    "w8a8": 8.0,
    "w4a16": 4.0 + 20 / 128,
    "int4": 4.0 + 20 / 128,
    "gptq": 4.0 + 20 / 128,
    "awq": 4.0 + 20 / 128,
    "int2": 2.0 + 18 / 128,
    "int3": 3.0 + 19 / 128,
    "int5": 5.0 + 21 / 128,
    "int6": 6.0 + 22 / 128,
    "int7": 7.0 + 23 / 128,
    "fp4": 4.0 + 8 / 16,
    "fp6": 6.0 + 8 / 32,
    "mxfp8": 8.0 + 8 / 32,
    "nf4": 4.0 + 8 / 64 + 32 / (64 * 256),
    "nf4-single": 4.0 + 32 / 64,
}
PRECISION_ALIASES = {
    "fp32": "f32",
    "float32": "f32",
    "fp16": "f16",
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "bf16+fp32": "bf16",
    "float8": "fp8",
    "fp8_e4m3": "fp8",
    "i8": "int8",
    "uint4": "int4",
    "i4": "int4",
    "w4a16": "int4",
    "q40": "q4_0",
    "q80": "q8_0",
}
# GGUF file types (mixtures), each with the tensor type of most of its tensors (llama.cpp llama-quant.cpp).
GGUF_FILE_TYPES: dict[str, str] = {
    "q2_k": "q2_k",
    "q2_k_s": "q2_k",
    "q3_k_s": "q3_k",
    "q3_k_m": "q3_k",
    "q3_k_l": "q3_k",
    "q4_k_s": "q4_k",
    "q4_k_m": "q4_k",
    "q5_k_s": "q5_k",
    "q5_k_m": "q5_k",
    "q6_k": "q6_k",
    "iq1_s": "iq1_s",
    "iq1_m": "iq1_m",
    "iq2_xxs": "iq2_xxs",
    "iq2_xs": "iq2_xs",
    "iq2_s": "iq2_xs",
    "iq2_m": "iq2_s",
    "iq3_xxs": "iq3_xxs",
    "iq3_xs": "iq3_s",
    "iq3_s": "iq3_s",
    "iq3_m": "iq3_s",
    "iq4_nl": "iq4_nl",
    "iq4_xs": "iq4_xs",
    "q4_0": "q4_0",
    "q4_1": "q4_1",
    "q5_0": "q5_0",
    "q5_1": "q5_1",
    "q8_0": "q8_0",
    "tq1_0": "tq1_0",
    "tq2_0": "tq2_0",
    "q1_0": "q1_0",
    "mxfp4": "mxfp4",
    "mxfp4_moe": "mxfp4",
}
GROUPED_FORMAT = re.compile(r"^(int[1-8]|gptq|awq)[-_ ]?g(\d+)$")


@lru_cache(maxsize=256)
def normalize_precision(text: str) -> str:
    """Return the canonical name of a precision; raise InputError with the known ones for another."""
    name = text.strip().lower().replace(" ", "-").removesuffix("-weight-only")
    name = PRECISION_ALIASES.get(name, name)
    mixture = {"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m"}.get(name, name)
    if (
        mixture in GGUF_FILE_TYPES
        or name in GGUF_BLOCKS
        or name in BITS_PER_WEIGHT
        or GROUPED_FORMAT.match(name)
    ):
        return name
    raise InputError(
        f"unknown precision {text!r}",
        remedy="one of f32, f16, bf16, fp8, int8, int4, nf4, nvfp4, mxfp4 or a GGUF type such as q4_0, q4_k_m, q8_0",
    )


def is_gguf_precision(precision: str) -> bool:
    """Return whether the format is a quantized GGUF type."""
    return precision in GGUF_FILE_TYPES and precision != "mxfp4"


def bits_per_element(precision: str) -> float:
    """Return the bits per element of a tensor in that format, block scales included."""
    if precision in GGUF_BLOCKS:
        weights, size = GGUF_BLOCKS[precision]
        return size * 8 / weights
    grouped = GROUPED_FORMAT.match(precision)
    if grouped:
        kind, group = grouped.groups()
        bits = int(kind[3:]) if kind.startswith("int") else 4
        return bits + (16 if bits == 8 else 16 + bits) / int(group)  # noqa: PLR2004 - 8 bits have no zero
    if precision in BITS_PER_WEIGHT:
        return BITS_PER_WEIGHT[precision]
    return bits_per_element(GGUF_FILE_TYPES[precision])
