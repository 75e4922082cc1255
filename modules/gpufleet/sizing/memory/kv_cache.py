"""KV cache bytes of a sequence: grouped-query, latent (MLA), sliding-window, sparse and linear attention; quantized."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.catalog.architecture import LayerCache, ModelArchitecture
from gpufleet.sizing.memory.quantization import bits_per_element, normalize_precision

CACHE_BLOCK = 256  # tokens


def kv_cache_bytes_per_token(model: ModelArchitecture, kv_precision: str = "f16") -> float:
    """Return the bytes that one more token adds while it is inside every sliding window."""
    if model.caches:
        return sum(
            cache.layers * _bytes_per_entry(cache, kv_precision) / cache.stride for cache in model.caches
        )
    return _bytes_per_layer(model, kv_precision) * model.attention_layer_count


def kv_cache_bytes(
    model: ModelArchitecture, tokens: float, kv_precision: str = "f16", *, micro_batch: int = 0
) -> float:
    """Return the cache bytes of one sequence of that many tokens; sliding-window layers store at most their window.

    llama.cpp's windows also hold the ``micro_batch`` that is being computed, in blocks of 256 tokens.
    """
    if model.caches:
        return _state_bytes(model) + sum(
            cache.layers
            * _bytes_per_entry(cache, kv_precision)
            * replace(cache, window=_padded_window(cache.window, micro_batch)).count_entries(tokens)
            for cache in model.caches
        )
    windowed = model.sliding_layers if model.sliding_window else 0
    full_layers = model.attention_layer_count - windowed
    near = min(tokens, _padded_window(model.sliding_window, micro_batch))
    cached_tokens = full_layers * tokens + windowed * near
    return _bytes_per_layer(model, kv_precision) * cached_tokens + _state_bytes(model)


def kv_cache_bytes_read(model: ModelArchitecture, tokens: float, kv_precision: str = "f16") -> float:
    """Return the cache bytes that one step of a sequence reads: all, or what sparse attention chooses."""
    if not any(each.top for each in model.caches):
        return kv_cache_bytes(model, tokens, kv_precision)
    return _state_bytes(model) + sum(
        each.layers * _bytes_per_entry(each, kv_precision) * each.count_read_entries(tokens)
        for each in model.caches
    )


def _padded_window(window: int, micro_batch: int) -> int:
    """Return the tokens that a window's cache holds; llama-kv-cache-iswa.cpp pads window and micro-batch to 256."""
    return -(-(window + micro_batch) // CACHE_BLOCK) * CACHE_BLOCK if window and micro_batch else window


def _bytes_per_entry(cache: LayerCache, kv_precision: str) -> float:
    return cache.elements * _element_bytes(kv_precision) + cache.byte_elements


def _bytes_per_layer(model: ModelArchitecture, kv_precision: str) -> float:
    size = _element_bytes(kv_precision)
    if model.latent:
        return (model.latent.kv_rank + model.latent.rope_dim) * size
    return 2 * model.kv_heads * model.head_dim * size


def _state_bytes(model: ModelArchitecture) -> float:
    if model.state_bytes or model.linear is None:
        return model.state_bytes
    linear = model.linear
    return float(linear.layers * linear.state_elements_per_layer * linear.state_bytes)


def _element_bytes(kv_precision: str) -> float:
    return bits_per_element(normalize_precision(kv_precision)) / 8
