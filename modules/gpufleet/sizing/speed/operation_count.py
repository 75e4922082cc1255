"""Bytes read and operations computed by one step of a model."""

from __future__ import annotations

from functools import lru_cache

from gpufleet.catalog import ModelArchitecture
from gpufleet.sizing.memory.quantization import bits_per_element, normalize_precision
from gpufleet.sizing.memory.weights import active_weight_bytes, list_matrix_bytes

MATRIX_UNIT_FORMATS = {"fp8": "fp8", "fp4": "fp4", "nvfp4": "fp4", "mxfp8": "fp8"}
MIN_HALF_BITS, MIN_BYTE_BITS = 16, 6


def count_lookup_only_weights(model: ModelArchitecture) -> float:
    """Return the embedding weights that are only looked up; 0 if they are tied to the output matrix."""
    return 0.0 if model.tied_embeddings else float(model.vocabulary) * model.hidden


def forward_operations_per_token(model: ModelArchitecture) -> float:
    """Return operations per token of a forward pass without attention scores: two per active weight.

    Source: Kaplan et al., Scaling Laws for Neural Language Models (arXiv 2001.08361), section 2.1.
    """
    return 2.0 * (model.active_parameters - count_lookup_only_weights(model))


def query_heads_width(model: ModelArchitecture) -> float:
    """Return the total width of the query heads."""
    if model.latent:
        return float(model.heads) * (model.latent.nope_dim + model.latent.rope_dim)
    return float(model.heads) * model.head_dim


def attention_operations_per_token(model: ModelArchitecture, tokens: float) -> float:
    """Return forward operations per token of causal attention over ``tokens`` tokens."""
    attended_tokens = _mean_attended_tokens(model, tokens)
    return 4.0 * query_heads_width(model) * attended_tokens


def _mean_attended_tokens(model: ModelArchitecture, tokens: float) -> float:
    """Return how many earlier tokens the average token attends to, summed over layers."""
    if model.is_encoder:
        return float(model.layers) * tokens  # in both directions; local windows are left out
    if model.caches:
        return sum(
            each.layers * each.count_read_entries(tokens / 2) for each in model.caches if not each.is_index
        )
    full = float(model.attention_layer_count - model.sliding_layers)
    near = min(tokens / 2, model.sliding_window or tokens / 2)
    return full * tokens / 2 + model.sliding_layers * near


@lru_cache(maxsize=4096)
def weight_bytes_read(model: ModelArchitecture, precision: str, tokens: float) -> float:
    """Return the weight bytes that one step over so many tokens reads."""
    return active_weight_bytes(model, precision, tokens)


@lru_cache(maxsize=256)
def kernel_weight_format(precision: str) -> str:
    """Return the weight format of the kernels: half, byte or nibble, or fp8 and fp4 for matrix units."""
    name = normalize_precision(precision)
    if name in MATRIX_UNIT_FORMATS:
        return MATRIX_UNIT_FORMATS[name]
    bits = bits_per_element(name)
    return "half" if bits >= MIN_HALF_BITS else "byte" if bits >= MIN_BYTE_BITS else "nibble"


@lru_cache(maxsize=512)
def dense_weight_bytes(model: ModelArchitecture, precision: str) -> float:
    """Return the weight bytes that every step reads whatever its tokens: all but routed experts and look-ups."""
    return active_weight_bytes(model, precision, 0.0)


@lru_cache(maxsize=512)
def routed_weight_bytes(model: ModelArchitecture, precision: str) -> float:
    """Return the weight bytes of all routed experts."""
    return sum(
        size for matrix, size in list_matrix_bytes(model, normalize_precision(precision)) if matrix.routed
    )


@lru_cache(maxsize=512)
def routed_operations_per_token(model: ModelArchitecture) -> float:
    """Return operations per token of the chosen routed experts: two per weight."""
    if model.experts is None:
        return 0.0
    weights = sum(matrix.element_count for matrix, _ in list_matrix_bytes(model, "bf16") if matrix.routed)
    return 2.0 * weights * model.experts.per_token / model.experts.count


@lru_cache(maxsize=512)
def dense_operations_per_token(model: ModelArchitecture) -> float:
    """Return operations per token of a forward pass without attention scores and routed experts."""
    return max(forward_operations_per_token(model) - routed_operations_per_token(model), 0.0)


def latent_operations_per_token(model: ModelArchitecture, context: float) -> float:
    """Return operations of one token's latent attention in decode: each head reads the compressed vector itself.

    Queries are multiplied into the latent space (the absorbed form of DeepSeek V2, arXiv 2405.04434, section 2.1): a
    head multiplies rank and position elements for its scores, and the rank again for its values.
    """
    latent = model.latent
    if latent is None:
        return 0.0
    attended = min(context, max((each.top for each in model.caches), default=0) or context)
    return 2.0 * model.layers * model.heads * (2 * latent.kv_rank + latent.rope_dim) * attended
