"""What a sequence keeps in memory, by layer, from the header of a GGUF file: keys, values and recurrent states.

Source: llama.cpp src/llama-hparams.cpp and llama-model.cpp (2026): n_embd_k_gqa, n_embd_r, n_embd_s, is_swa, and
n_layer_kv_from_start of gemma3n. Recurrent states have 32 bits.
"""

from __future__ import annotations

from collections import Counter

from gpufleet.catalog.architecture import LayerCache
from gpufleet.catalog.gguf_file import GgufArray
from gpufleet.catalog.gguf_header import GgufModelHeader
from gpufleet.errors import InputError

FULL_ATTENTION_INTERVALS = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gpt-oss": 2,
    "cohere2": 4,
    "llama4": 4,
    "exaone4": 4,
    "olmo2": 4,
    "afmoe": 4,
    "smallthinker": 4,
    "plamo3": 8,
}  # one layer in n attends to all tokens
SLIDING_WINDOW_FAMILIES = {"phi3", "mistral", "starcoder2"}  # every layer has the window
MIN_INTERVAL = 2
STATE_ELEMENT_BYTES = 4
MAX_LAYERS = 10_000


def check_layer_count(header: GgufModelHeader, layers: int) -> None:
    """Raise InputError for more layers than any model has."""
    if layers > MAX_LAYERS:
        raise InputError(
            f"{layers:,} layers are more than any model has",
            where=header.where,
            key=f"{header.kind}.block_count",
        )


def list_layer_values(header: GgufModelHeader, key: str, layers: int, default: int) -> list[int]:
    """Return a number for each layer: of a list its elements, else the same number for all."""
    value = header.get_field(f"{header.kind}.{key}")
    if isinstance(value, GgufArray) and value.numbers:
        if len(value.numbers) < layers:
            raise InputError(
                f"has {len(value.numbers)} numbers for {layers} layers",
                where=header.where,
                key=f"{header.kind}.{key}",
            )
        return [max(0, int(number)) for number in value.numbers[:layers]]
    return [header.get_architecture_number(key, default)] * layers


def list_sliding_layers(header: GgufModelHeader, layers: int) -> list[bool]:
    """Return for each layer whether it has the window."""
    if not header.get_architecture_number("attention.sliding_window", 0):
        return [False] * layers
    pattern = header.get_field(f"{header.kind}.attention.sliding_window_pattern")
    if isinstance(pattern, GgufArray):
        return [
            bool(value) for value in list_layer_values(header, "attention.sliding_window_pattern", layers, 0)
        ]
    interval = (
        int(pattern) if isinstance(pattern, int) and pattern else FULL_ATTENTION_INTERVALS.get(header.kind, 0)
    )
    if interval:
        return [(layer + 1) % interval != 0 for layer in range(layers)]
    return [header.kind in SLIDING_WINDOW_FAMILIES] * layers


def list_layer_caches(
    header: GgufModelHeader, layers: int, hidden: int, heads: int
) -> tuple[LayerCache, ...]:
    """Return the caches of the layers; layers with equal ones are one entry."""
    window = header.get_architecture_number("attention.sliding_window", 0)
    kv_heads = list_layer_values(header, "attention.head_count_kv", layers, heads)
    interval = header.get_architecture_number("full_attention_interval", 0)
    key = header.get_architecture_number("attention.key_length", hidden // heads)
    value = header.get_architecture_number("attention.value_length", key)
    near_key = header.get_architecture_number("attention.key_length_swa", key)
    near_value = header.get_architecture_number("attention.value_length_swa", value)
    shared = header.get_architecture_number("attention.shared_kv_layers", 0)
    rank = header.get_architecture_number("attention.kv_lora_rank", 0)
    indexer = header.get_architecture_number("attention.indexer.key_length", 0)
    caches: Counter[tuple[int, int]] = Counter()
    for layer, is_near in enumerate(list_sliding_layers(header, layers)):
        is_recurrent = not kv_heads[layer] or (
            interval >= MIN_INTERVAL and (layer + 1) % interval and has_recurrent_state(header)
        )
        if is_recurrent or layer >= layers - shared:
            continue
        width = near_key + near_value if is_near else key + value
        elements = rank + header.get_architecture_number("rope.dimension_count", 0) if rank else 0
        caches[(elements or kv_heads[layer] * width) + indexer, window if is_near else 0] += 1
    return tuple(LayerCache(count, elements, near) for (elements, near), count in caches.items())


def has_recurrent_state(header: GgufModelHeader) -> bool:
    """Return whether the model has layers with a state of a fixed size."""
    return any(header.get_architecture_number(key, 0) for key in ("ssm.inner_size", "shortconv.l_cache"))


def count_recurrent_layers(header: GgufModelHeader, layers: int, heads: int) -> int:
    """Return how many layers have a state instead of keys and values."""
    kv_heads = list_layer_values(header, "attention.head_count_kv", layers, heads)
    interval = header.get_architecture_number("full_attention_interval", 0)
    if interval >= MIN_INTERVAL and has_recurrent_state(header):
        return sum(bool((layer + 1) % interval) for layer in range(layers))
    return sum(not count for count in kv_heads) if has_recurrent_state(header) else 0


def count_state_bytes(header: GgufModelHeader, layers: int, hidden: int, heads: int) -> float:
    """Return the bytes of all recurrent states of one sequence: convolution windows and matrices."""
    recurrent = count_recurrent_layers(header, layers, heads)
    if header.kind == "falcon-h1":
        recurrent = layers  # each layer has both
    short = header.get_architecture_number("shortconv.l_cache", 0)
    inner, width = (header.get_architecture_number(f"ssm.{key}", 0) for key in ("inner_size", "state_size"))
    groups = header.get_architecture_number("ssm.group_count", 0)
    kernel = header.get_architecture_number("ssm.conv_kernel", 0)
    window = max(0, short - 1) * hidden + max(0, kernel - 1) * (inner + 2 * groups * width)
    return float(recurrent * (window + inner * width) * STATE_ELEMENT_BYTES)
