"""Bytes of a model's weights in a precision: all of them, or those that a step reads."""

from __future__ import annotations

from functools import lru_cache

from gpufleet.catalog.architecture import ModelArchitecture
from gpufleet.catalog.parameter_count import WeightMatrixGroup, list_weight_matrices
from gpufleet.errors import InputError
from gpufleet.sizing.memory.gguf_mixture import gguf_mixture_bits_per_weight
from gpufleet.sizing.memory.quantization import bits_per_element, is_gguf_precision, normalize_precision

UNQUANTIZED_FORMATS = {"f32", "f16", "bf16", "f64", "tf32"}
UNQUANTIZED_KINDS = {
    "embedding",
    "output",
    "small",
    "router",
}  # stored in 16 bits by formats other than GGUF
AS_STORED = "as_stored"


def bits_per_weight(precision: str) -> float:
    """Return the bits per weight of a quantized matrix, block scales included."""
    name = normalize_precision(precision)
    return bits_per_element(name)


def stored_precision(model: ModelArchitecture) -> str:
    """Return the precision of a model's file; empty if it is not stated or not known."""
    try:
        return normalize_precision(model.stored_precision) if model.stored_precision else ""
    except InputError:
        return ""


def weight_bytes(model: ModelArchitecture, precision: str) -> float:
    """Return the bytes of all weights; for a GGUF file that was read, its tensor sizes."""
    if model.stored and precision in {AS_STORED, model.stored_precision}:
        return sum(size for _, size in model.stored)
    return _computed_weight_bytes(model, normalize_precision(precision))


def active_weight_bytes(model: ModelArchitecture, precision: str, tokens: float = 1.0) -> float:
    """Return the weight bytes that a step of ``tokens`` tokens reads; only the expected active experts count.

    The embedding is a lookup and not counted; a tied one is read as the output matrix. Text passes no vision tower.
    """
    name = normalize_precision(precision)
    active_share = expected_active_experts(model, tokens) / model.experts.count if model.experts else 1.0
    return sum(
        size * (active_share if matrix.routed else 1.0)
        for matrix, size in list_matrix_bytes(model, name)
        if matrix.kind != "vision" and (matrix.kind != "embedding" or model.tied_embeddings)
    )


def expected_active_experts(model: ModelArchitecture, tokens: float) -> float:
    """Return the expected number of distinct experts of a layer for that many tokens with even routing."""
    if model.experts is None:
        return 0.0
    count, chosen = model.experts.count, model.experts.per_token
    missed: float = (1.0 - chosen / count) ** max(tokens, 0.0)
    return count * (1.0 - missed)


@lru_cache(maxsize=512)
def _computed_weight_bytes(model: ModelArchitecture, name: str) -> float:
    return sum(size for _, size in list_matrix_bytes(model, name))


@lru_cache(maxsize=512)
def list_matrix_bytes(
    model: ModelArchitecture, precision: str
) -> tuple[tuple[WeightMatrixGroup, float], ...]:
    """Return each group of equal tensors with its bytes; the precision as ``normalize_precision`` returns it."""
    return tuple(
        (matrix, matrix.element_count * _matrix_bits_per_weight(matrix, model, precision) / 8)
        for matrix in list_weight_matrices(model)
    )


def _matrix_bits_per_weight(matrix: WeightMatrixGroup, model: ModelArchitecture, precision: str) -> float:
    published = model.quantization
    if published and precision == normalize_precision(published.precision):
        return published.get_bits(matrix.tensor_name)
    if precision in UNQUANTIZED_FORMATS:
        return bits_per_element(precision)
    if matrix.kind == "vision":
        return 16.0  # published quantisations leave it in 16 bits; llama.cpp has it in a file of its own
    if is_gguf_precision(precision):
        return gguf_mixture_bits_per_weight(matrix, model, precision)
    if precision == "w8a8" and matrix.kind in {"embedding", "output"}:
        return 8.0  # RKNN converts the whole graph
    if matrix.kind in UNQUANTIZED_KINDS or (precision == "mxfp4" and model.experts and not matrix.routed):
        return 16.0
    return bits_per_element(precision)
