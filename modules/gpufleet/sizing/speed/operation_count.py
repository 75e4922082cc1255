"""What one step of a model moves and computes: bytes of weights, bytes of cache, operations."""

from __future__ import annotations

from functools import lru_cache

from gpufleet.catalog import Architecture
from gpufleet.sizing.memory import active_weight_bytes, kv_bytes
from gpufleet.sizing.memory.quantization import bits_per_element, normalize_precision

MATRIX_UNIT_FORMATS = {"fp8": "fp8", "fp4": "fp4", "nvfp4": "fp4"}
MIN_HALF_BITS, MIN_BYTE_BITS = 16, 6


def embedding_lookup_weights(model: Architecture) -> float:
    """Return the weights of the input table that are looked up, never read whole; 0 where it is the head too."""
    return 0.0 if model.tied_embeddings else float(model.vocabulary) * model.hidden


def output_weights(model: Architecture) -> float:
    """Return the weights that turn the last state into a choice of token."""
    return float(model.vocabulary) * model.hidden


def forward_operations(model: Architecture) -> float:
    """Return floating-point operations per token of one forward pass, attention's own left out."""
    return 2.0 * (model.active_parameters - embedding_lookup_weights(model))


def attention_width(model: Architecture) -> float:
    """Return the summed width of the heads that compare a token with each earlier one."""
    if model.latent:
        return float(model.heads) * (model.latent.nope_dim + model.latent.rope_dim)
    return float(model.heads) * model.head_dim


def attention_operations(model: Architecture, tokens: float) -> float:
    """Return operations per token of attention over a causal sequence of so many tokens, forward."""
    seen = _mean_attended_tokens(model, tokens)
    return 4.0 * attention_width(model) * seen


def _mean_attended_tokens(model: Architecture, tokens: float) -> float:
    """Return over all layers how many earlier tokens the average token looks at."""
    full = float(model.attention_layers - model.sliding_layers)
    near = min(tokens / 2, model.sliding_window or tokens / 2)
    return full * tokens / 2 + model.sliding_layers * near


@lru_cache(maxsize=4096)
def weight_bytes_read(model: Architecture, precision: str, tokens: float) -> float:
    """Return the bytes of weights that one step over so many tokens reads."""
    return active_weight_bytes(model, precision, tokens)


def kv_cache_bytes(model: Architecture, precision: str, context: float) -> float:
    """Return the bytes of keys and values of one sequence."""
    return kv_bytes(model, context, precision)


@lru_cache(maxsize=256)
def kernel_format(precision: str) -> str:
    """Return the kind of numbers that kernels unpack: half, byte, nibble, or what matrix units take as it is."""
    name = normalize_precision(precision)
    if name in MATRIX_UNIT_FORMATS:
        return MATRIX_UNIT_FORMATS[name]
    bits = bits_per_element(name)
    return "half" if bits >= MIN_HALF_BITS else "byte" if bits >= MIN_BYTE_BITS else "nibble"
