"""KV cache bytes of a sequence: grouped-query, latent (MLA), sliding-window and linear attention; quantized."""

from __future__ import annotations

from gpufleet.catalog.architecture import ModelArchitecture
from gpufleet.sizing.memory.quantization import bits_per_element, normalize_precision

STATE_BYTES = 2  # linear attention stores its state in 16 bits


def kv_cache_bytes_per_token(model: ModelArchitecture, kv_precision: str = "f16") -> float:
    """Return the bytes that one more token adds while it is inside every sliding window."""
    return _bytes_per_layer(model, kv_precision) * model.attention_layer_count


def kv_cache_bytes(model: ModelArchitecture, tokens: float, kv_precision: str = "f16") -> float:
    """Return the cache bytes of one sequence of that many tokens; sliding-window layers store at most their window."""
    windowed = model.sliding_layers if model.sliding_window else 0
    full_layers = model.attention_layer_count - windowed
    cached_tokens = full_layers * tokens + windowed * min(tokens, model.sliding_window)
    state = model.linear.layers * model.linear.state_elements_per_layer * STATE_BYTES if model.linear else 0
    return _bytes_per_layer(model, kv_precision) * cached_tokens + state


def _bytes_per_layer(model: ModelArchitecture, kv_precision: str) -> float:
    size = bits_per_element(normalize_precision(kv_precision)) / 8
    if model.latent:
        return (model.latent.kv_rank + model.latent.rope_dim) * size
    return 2 * model.kv_heads * model.head_dim * size
