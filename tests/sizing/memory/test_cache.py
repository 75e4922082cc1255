from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet import catalog, sizing
from gpufleet.catalog.architecture import LinearAttention

NAMES = sorted(catalog.load_models())


@pytest.mark.parametrize(
    ("name", "size"),
    [  # by hand: 2 x layers x KV heads x head size x 2 bytes
        ("Llama-2-7B", 2 * 32 * 32 * 128 * 2),
        ("Llama-3-8B", 2 * 32 * 8 * 128 * 2),
        ("Llama-3.1-405B", 2 * 126 * 8 * 128 * 2),
        ("Falcon-7B", 2 * 32 * 1 * 64 * 2),
        ("DeepSeek-V3", 61 * (512 + 64) * 2),  # one compressed vector, whatever the heads
        ("Qwen2.5-0.5B", 2 * 24 * 2 * 64 * 2),
    ],
)
def test_bytes_per_token_match_a_manual_calculation(name, size):
    assert sizing.kv_cache_bytes_per_token(catalog.get_model(name)) == size


def test_405b_cache_at_128k_is_half_of_the_commonly_quoted_size():
    """huggingface/blog llama31.md@0551785 says 123.05 at 128k tokens: that is 16 KV heads, as the first release had.

    The config.json of meta-llama/Meta-Llama-3.1-405B has 8 (aiconfigurator-core 0.12.0), and Meta's own list
    keeps the 16 for the variant with 16-way model parallelism (llama-models 0.3.0 sku_list.py).
    """
    model = catalog.get_model("Llama-3.1-405B")
    assert sizing.kv_cache_bytes(model, 125 * 1024) / 2**30 == pytest.approx(61.52, abs=0.01)
    assert sizing.kv_cache_bytes(replace(model, kv_heads=16), 125 * 1024) / 2**30 == pytest.approx(
        123.05, abs=0.01
    )


@pytest.mark.parametrize(
    ("precision", "share"), [("q8_0", 8.5 / 16), ("fp8", 0.5), ("q4_0", 4.5 / 16), ("f32", 2.0)]
)
def test_quantised_caches_are_smaller(precision, share):
    model = catalog.get_model("Llama-3-8B")
    assert sizing.kv_cache_bytes_per_token(model, precision) == pytest.approx(
        share * sizing.kv_cache_bytes_per_token(model)
    )


def test_windowed_layers_stop_growing_at_their_window():
    """GPT-OSS 20B: 12 layers keep everything, 12 the last 128 tokens."""
    model, bytes_per_token = catalog.get_model("GPT-OSS-20B"), 2 * 8 * 64 * 2
    assert sizing.kv_cache_bytes(model, 100) == 24 * bytes_per_token * 100
    assert sizing.kv_cache_bytes(model, 10_000) == bytes_per_token * (12 * 10_000 + 12 * 128)


def test_linear_attention_stores_one_state():
    linear = LinearAttention(layers=24, key_heads=16, key_dim=128, value_heads=32, value_dim=128)
    hybrid = replace(catalog.get_model("Llama-3-8B"), linear=linear)
    state = 24 * (32 * 128 * 128 + 4 * (2 * 16 * 128 + 32 * 128)) * 2
    assert sizing.kv_cache_bytes(hybrid, 1000) == 8 * 4096 * 1000 + state


@given(st.sampled_from(NAMES), st.integers(1, 200_000), st.integers(1, 200_000))
def test_longer_context_never_needs_less_cache(name, one, other):
    short, long = sorted((one, other))
    model = catalog.get_model(name)
    assert sizing.kv_cache_bytes(model, short) <= sizing.kv_cache_bytes(model, long)


@given(st.sampled_from(NAMES), st.integers(1, 200_000))
def test_sliding_windows_never_need_more_cache(name, tokens):
    model = catalog.get_model(name)
    state = sizing.kv_cache_bytes(model, 0)  # of linear layers
    full = sizing.kv_cache_bytes_per_token(model) * tokens
    assert sizing.kv_cache_bytes(model, tokens) <= (full + state) * (1 + 1e-9)
