"""KV cache bytes of a sequence: grouped-query, latent (MLA), sliding-window and linear attention; quantized."""

from __future__ import annotations

from gpufleet.catalog.architecture import ModelArchitecture
from gpufleet.sizing.memory.quantization import bits_per_element, normalize_precision


def kv_cache_bytes_per_token(model: ModelArchitecture, kv_precision: str = "f16") -> float:
    """Return the bytes that one more token adds while it is inside every sliding window."""
    if model.caches:
        return _element_bytes(kv_precision) * sum(
            each.layers * each.elements / each.stride for each in model.caches
        )
    return _bytes_per_layer(model, kv_precision) * model.attention_layer_count


def kv_cache_bytes(model: ModelArchitecture, tokens: float, kv_precision: str = "f16") -> float:
    """Return the cache bytes of one sequence of that many tokens; sliding-window layers store at most their window."""
    if model.caches:
        count = sum(each.layers * each.elements * each.count_entries(tokens) for each in model.caches)
        return _element_bytes(kv_precision) * count + _state_bytes(model)
    windowed = model.sliding_layers if model.sliding_window else 0
    full_layers = model.attention_layer_count - windowed
    cached_tokens = full_layers * tokens + windowed * min(tokens, model.sliding_window)
    return _bytes_per_layer(model, kv_precision) * cached_tokens + _state_bytes(model)


def kv_cache_bytes_read(model: ModelArchitecture, tokens: float, kv_precision: str = "f16") -> float:
    """Return the cache bytes that one step of a sequence reads: all, or what sparse attention chooses."""
    if not any(each.top for each in model.caches):
        return kv_cache_bytes(model, tokens, kv_precision)
    read = sum(each.layers * each.elements * each.count_read_entries(tokens) for each in model.caches)
    return _element_bytes(kv_precision) * read + _state_bytes(model)


def _state_bytes(model: ModelArchitecture) -> float:
    linear = model.linear
    return float(linear.layers * linear.state_elements_per_layer * linear.state_bytes) if linear else 0.0


def _element_bytes(kv_precision: str) -> float:
    return bits_per_element(normalize_precision(kv_precision)) / 8


def _bytes_per_layer(model: ModelArchitecture, kv_precision: str) -> float:
    size = _element_bytes(kv_precision)
    if model.latent:
        return (model.latent.kv_rank + model.latent.rope_dim) * size
    return 2 * model.kv_heads * model.head_dim * size
