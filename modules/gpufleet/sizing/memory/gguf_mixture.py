"""The tensor types of a GGUF mixture: the rules of llama.cpp's quantizer.

Source: ggml-org/llama.cpp src/llama-quant.cpp, llama_tensor_get_type_impl and tensor_type_fallback (2026),
without an importance matrix, except iq3_xxs, which needs one. The first and last eighth of the layers and every
third layer between them get more bits.
"""

from __future__ import annotations

from gpufleet.catalog.architecture import ModelArchitecture
from gpufleet.catalog.parameter_count import WeightMatrixGroup
from gpufleet.sizing.memory.quantization import GGUF_BLOCKS, GGUF_FILE_TYPES, bits_per_element

GQA_RATIO_FOR_MORE_BITS = 4  # from this ratio of query to KV heads V gets more bits
MIXTRAL_EXPERTS = 8
LAYERS_OF_70B = 80  # the quantizer's test for a 70B model
LOW_BIT_TYPES = {"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m"}
FALLBACK_TYPES = {
    "q2_k": "q4_0",
    "q3_k": "q4_0",
    "tq1_0": "q4_0",
    "tq2_0": "q4_0",
    "q4_k": "q5_0",
    "q5_k": "q5_1",
    "q6_k": "q8_0",
}
FUSED_QKV_FAMILIES = {"falcon", "mpt", "phi2", "phi3"}  # families with one fused Q, K and V tensor


def gguf_mixture_bits_per_weight(matrix: WeightMatrixGroup, model: ModelArchitecture, mixture: str) -> float:
    """Return the average bits per weight of these tensors in a file of that mixture."""
    if matrix.kind in {"small", "router"}:
        return 32.0
    layers = range(matrix.layers)
    bits = [
        bits_per_element(_fallback_type(_tensor_type(matrix, model, mixture, layer), matrix.columns))
        for layer in layers
    ]
    return sum(bits) / len(bits)


def _fallback_type(kind: str, columns: int) -> str:
    """Return the type, or its fallback with blocks of 32 if the columns are not a multiple of 256."""
    if columns % GGUF_BLOCKS[kind][0] == 0:
        return kind
    smaller = FALLBACK_TYPES.get(kind, "iq4_nl")
    return smaller if columns % GGUF_BLOCKS[smaller][0] == 0 else "f16"


def _tensor_type(matrix: WeightMatrixGroup, model: ModelArchitecture, mixture: str, layer: int) -> str:
    base = GGUF_FILE_TYPES[mixture]
    kind = matrix.kind
    if mixture in {"mxfp4", "mxfp4_moe"}:
        return "mxfp4" if matrix.routed else "q8_0"
    if kind == "output" or (kind == "embedding" and model.tied_embeddings):
        return _output_type(base, mixture, model)
    if kind == "embedding":
        return _embedding_type(base, mixture)
    if kind in {"q", "k", "v"} and model.family in FUSED_QKV_FAMILIES:
        return {"q3_k_m": "q4_k", "q3_k_l": "q4_k", "iq3_m": "q4_k", "q4_k_m": "q5_k", "q5_k_m": "q6_k"}.get(
            mixture, base
        )
    chosen = {
        "v": _attn_v_type,
        "k": _attn_k_type,
        "q": _attn_q_type,
        "o": _attn_output_type,
        "down": _ffn_down_type,
    }.get(kind)
    if chosen:
        return chosen(base, mixture, model, layer)
    if kind in {"gate", "up"} and mixture == "iq3_xs" and model.layers // 8 <= layer < 7 * model.layers // 8:
        return "iq3_xxs"
    return base


def _output_type(base: str, mixture: str, model: ModelArchitecture) -> str:
    if model.family == "falcon" or model.hidden % GGUF_BLOCKS[base][0] or base == "q8_0":
        return "q8_0"
    return "q5_k" if mixture in LOW_BIT_TYPES | {"iq3_xxs"} else "q6_k"


def _embedding_type(base: str, mixture: str) -> str:
    exceptions = {"iq2_s": "iq3_s", "iq2_m": "iq3_s", "iq3_xxs": "iq3_s", "tq1_0": "q4_k", "tq2_0": "q4_k"}
    return exceptions.get(mixture, "q2_k" if mixture in LOW_BIT_TYPES else base)


def _attn_v_type(base: str, mixture: str, model: ModelArchitecture, layer: int) -> str:
    has_high_gqa_ratio = model.heads // model.kv_heads >= GQA_RATIO_FOR_MORE_BITS and not model.latent
    is_mixtral = model.experts is not None and model.experts.count == MIXTRAL_EXPERTS
    if mixture in LOW_BIT_TYPES:
        if has_high_gqa_ratio or (model.experts and model.experts.count >= GQA_RATIO_FOR_MORE_BITS):
            return "q4_k"
        return "iq3_s" if mixture in {"iq2_s", "iq2_m"} else "q2_k"
    chosen = _attn_v_type_by_layer(base, mixture, layer, model.layers, has_high_gqa_ratio=has_high_gqa_ratio)
    if model.layers == LAYERS_OF_70B and chosen in {"q3_k", "q4_k"}:
        chosen = "q5_k"
    return "q8_0" if is_mixtral else chosen


def _attn_v_type_by_layer(
    base: str, mixture: str, layer: int, layers: int, *, has_high_gqa_ratio: bool
) -> str:
    if mixture in {"q4_k_m", "q5_k_m"}:
        return "q6_k" if _uses_more_bits(layer, layers) else base
    if mixture == "q4_k_s":
        return "q5_k" if layer < 4 else base  # noqa: PLR2004 - a constant of the quantizer
    if mixture == "q3_k_m":
        return "q5_k" if layer < 2 else "q4_k"  # noqa: PLR2004 - a constant of the quantizer
    fixed = {"q3_k_l": "q5_k", "iq3_m": "q4_k"}
    high_gqa = {
        "q2_k": "q4_k",
        "q2_k_s": "q4_k",
        "iq3_xxs": "q4_k",
        "iq3_xs": "q4_k",
        "iq3_s": "q4_k",
        "iq4_nl": "q5_k",
        "iq4_xs": "q5_k",
    }
    low_gqa = {"q2_k": "q3_k"}
    return fixed.get(mixture) or (high_gqa if has_high_gqa_ratio else low_gqa).get(mixture, base)


def _attn_k_type(base: str, mixture: str, model: ModelArchitecture, _layer: int) -> str:
    if model.experts and model.experts.count == MIXTRAL_EXPERTS:
        return "q4_k" if mixture in LOW_BIT_TYPES else "q8_0"
    return _attn_q_type(base, mixture, model, _layer)


def _attn_q_type(base: str, mixture: str, _model: ModelArchitecture, _layer: int) -> str:
    return {"iq3_xs": "iq3_xxs", "iq3_xxs": "iq2_s"}.get(mixture, base)


def _attn_output_type(base: str, mixture: str, model: ModelArchitecture, _layer: int) -> str:
    if model.family == "falcon":
        return "q4_k" if mixture == "q3_k_l" else base
    if model.experts and model.experts.count == MIXTRAL_EXPERTS:
        return (
            "q5_k"
            if mixture not in {"q5_k_s", "q5_k_m", "q6_k", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1"}
            else base
        )
    more_bits = {"q2_k": "q3_k", "iq3_xxs": "iq3_s", "q3_k_m": "q4_k", "q3_k_l": "q5_k", "iq3_m": "q4_k"}
    low_bit_types = {"iq1_s": "iq2_xxs", "iq1_m": "iq2_xxs", "iq2_s": "iq3_s", "iq2_m": "iq3_s"}
    return more_bits.get(mixture) or low_bit_types.get(mixture, base)


def _ffn_down_type(base: str, mixture: str, model: ModelArchitecture, layer: int) -> str:
    layers, early = model.layers, layer < model.layers // 8
    if mixture in LOW_BIT_TYPES:
        return ("iq3_s" if mixture in {"iq2_s", "iq2_m"} else "q2_k") if early else base
    if mixture in {"q4_k_m", "q5_k_m"}:
        return "q6_k" if _uses_more_bits(layer, layers) else base
    if mixture == "q3_k_m":
        return "q5_k" if layer < layers // 16 else "q4_k"
    all_layers = {"q2_k": "q3_k", "q3_k_l": "q5_k"}
    early_layers = {"q2_k_s": "q4_k", "q4_k_s": "q5_k", "iq4_nl": "q5_k", "iq4_xs": "q5_k", "iq3_m": "q4_k"}
    return all_layers.get(mixture) or (early_layers.get(mixture, base) if early else base)


def _uses_more_bits(layer: int, layers: int) -> bool:
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2  # noqa: PLR2004
