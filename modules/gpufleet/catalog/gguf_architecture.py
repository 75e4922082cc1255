"""Read an architecture from the header of a GGUF file."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpufleet.catalog.architecture import (
    LatentAttention,
    MixtureOfExperts,
    ModelArchitecture,
    StoredQuantization,
)
from gpufleet.catalog.gguf_cache import (
    check_layer_count,
    count_recurrent_layers,
    count_state_bytes,
    list_layer_caches,
    list_sliding_layers,
)
from gpufleet.catalog.gguf_file import GgufArray
from gpufleet.catalog.gguf_header import GgufModelHeader
from gpufleet.catalog.gguf_type import FILE_TYPES
from gpufleet.catalog.parameter_count import list_weight_matrices
from gpufleet.errors import InputError

UNGATED_FAMILIES = {"gpt2", "gptneox", "gptj", "starcoder", "starcoder2", "bloom", "mpt", "falcon", "phi2"}


def read_gguf_model(path: Path) -> ModelArchitecture:
    """Return the model of a GGUF file with the exact bytes of its weights by tensor type."""
    header = GgufModelHeader(path)
    heads, hidden = (
        header.get_architecture_number("attention.head_count"),
        header.get_architecture_number("embedding_length"),
    )
    layers = header.get_architecture_number("block_count")
    if not heads or not hidden or not layers:
        raise InputError("contains a model without layers or heads", where=header.where)
    check_layer_count(header, layers)
    experts, latent = _build_experts(header), _build_latent_attention(header, heads)
    window = header.get_architecture_number("attention.sliding_window", 0)
    vocabulary = header.count_tensor_rows("token_embd.weight") or _array_length(
        header.get_field("tokenizer.ggml.tokens")
    )
    total, active = _count_parameters(header, experts)
    sizes: Counter[str] = Counter()
    for tensor in header.tensors:
        sizes[tensor.kind] += tensor.bytes
    recurrent = count_recurrent_layers(header, layers, heads)
    near_layers = sum(list_sliding_layers(header, layers))
    model = ModelArchitecture(
        name=str(header.get_field("general.name") or path.stem),
        family=header.kind,
        parameters=total,
        active_parameters=active,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=header.get_architecture_number("attention.head_count_kv", heads),
        head_dim=header.get_architecture_number("attention.key_length", hidden // heads),
        intermediate=header.get_architecture_number("feed_forward_length", 0),
        vocabulary=vocabulary,
        tied_embeddings=not header.count_tensor_rows("output.weight"),
        max_context=header.get_architecture_number("context_length"),
        experts=experts,
        latent=latent,
        sliding_window=window,
        sliding_layers=min(near_layers, layers - recurrent) if window else 0,
        caches=list_layer_caches(header, layers, hidden, heads),
        state_bytes=count_state_bytes(header, layers, hidden, heads),
        attention_layers=layers - recurrent,
        gated=header.kind not in UNGATED_FAMILIES,
        source=header.where,
        stored=tuple((kind, float(size)) for kind, size in sorted(sizes.items())),
        stored_precision=_stored_precision(header, sizes),
    )
    return _with_exact_bytes(model, header)


def _build_experts(header: GgufModelHeader) -> MixtureOfExperts | None:
    count = header.get_architecture_number("expert_count", 0)
    if not count:
        return None
    width = header.get_architecture_number(
        "expert_feed_forward_length", header.get_architecture_number("feed_forward_length", 0)
    )
    shared_width = header.get_architecture_number("expert_shared_feed_forward_length", 0)
    return MixtureOfExperts(
        count=count,
        per_token=header.get_architecture_number("expert_used_count"),
        shared=header.get_architecture_number("expert_shared_count", 1 if shared_width else 0),
        intermediate=width,
        dense_layers=header.get_architecture_number("leading_dense_block_count", 0),
        shared_intermediate=shared_width,
    )


def _build_latent_attention(header: GgufModelHeader, heads: int) -> LatentAttention | None:
    rank = header.get_architecture_number("attention.kv_lora_rank", 0)
    if not rank:
        return None
    rope = header.get_architecture_number("rope.dimension_count")
    key = header.get_architecture_number(
        "attention.key_length_mla", header.get_architecture_number("attention.key_length")
    )
    value = header.get_architecture_number(
        "attention.value_length_mla", header.get_architecture_number("attention.value_length")
    )
    return LatentAttention(
        kv_rank=rank,
        rope_dim=rope,
        q_rank=header.get_architecture_number("attention.q_lora_rank", 0),
        value_dim=value,
        nope_dim=max(0, key - rope) if heads else 0,
    )


def _count_parameters(header: GgufModelHeader, experts: MixtureOfExperts | None) -> tuple[float, float]:
    total = active = 0.0
    for tensor in header.tensors:
        elements = float(tensor.elements)
        is_routed = experts and "_exps" in tensor.name
        total += elements
        active += elements * experts.per_token / experts.count if experts and is_routed else elements
    return total, active


def _array_length(field: Any) -> int:
    return field.count if isinstance(field, GgufArray) else 0


def _stored_precision(header: GgufModelHeader, sizes: Counter[str]) -> str:
    """Return the quantisation mixture that the file states, or the type of most of its bytes."""
    number = header.get_field("general.file_type")
    try:
        name = FILE_TYPES[int(number)]
    except (KeyError, TypeError, ValueError, OverflowError):
        name = "guessed"
    return sizes.most_common(1)[0][0] if name == "guessed" else name


def _with_exact_bytes(model: ModelArchitecture, header: GgufModelHeader) -> ModelArchitecture:
    """Return the model with the bits of its tensors, which sum up to the bytes of the file."""
    sizes: Counter[str] = Counter()
    for tensor in header.tensors:
        sizes[_tensor_group(tensor.name)] += tensor.bytes
    elements: Counter[str] = Counter()
    groups: dict[str, str] = {}
    for matrix in list_weight_matrices(model):
        group = "routed" if matrix.routed else matrix.kind
        groups[matrix.tensor_name] = group if sizes[group] else "rest"
        elements[groups[matrix.tensor_name]] += int(matrix.element_count)
    for group in set(sizes) - set(elements):
        sizes["rest"] += sizes.pop(group)
    bits = tuple(
        (name, sizes[group] * 8 / elements[group])
        for name, group in sorted(groups.items())
        if elements[group]
    )
    return replace(model, quantization=StoredQuantization("gguf", model.stored_precision, bits, header.where))


def _tensor_group(name: str) -> str:
    if name.startswith("token_embd."):
        return "embedding"
    if name.startswith("output."):
        return "output"
    return "routed" if "_exps" in name else "rest"
