"""Read an architecture from a Hugging Face ``config.json``. Unknown families work if they use the standard keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gpufleet.boundary import LARGE_DOCUMENT, decode_json_object, read_bytes
from gpufleet.catalog.architecture import (
    LatentAttention,
    LinearAttention,
    MixtureOfExperts,
    ModelArchitecture,
)
from gpufleet.catalog.huggingface_document import HuggingFaceConfig, shorten_value
from gpufleet.catalog.huggingface_family import add_family_parts, check_family
from gpufleet.catalog.huggingface_key import check_structural_keys
from gpufleet.catalog.parameter_count import with_parameter_counts
from gpufleet.catalog.quantization_method import read_quantization_method
from gpufleet.catalog.quantized_modules import resolve_quantization
from gpufleet.catalog.vision_tower import count_tower_parameters
from gpufleet.errors import InputError

BERT_FAMILIES = {
    "bert",
    "roberta",
    "camembert",
    "ernie",
    "xlm-roberta",
    "xlm-roberta-xl",
    "data2vec-text",
    "megatron-bert",
    "roberta-prelayernorm",
}  # encoders of BERT's form: two matrices, biases, tied embeddings
UNGATED_FAMILIES = BERT_FAMILIES | {
    "gpt2",
    "gpt_neox",
    "gptj",
    "gpt_bigcode",
    "opt",
    "bloom",
    "mpt",
    "falcon",
    "RefinedWeb",
    "RefinedWebModel",
    "phi",
    "starcoder2",
    "stablelm_alpha",
    "apertus",
    "apertus1p5_text",
    "arcee",
    "jais2",
    "nanochat",
    "persimmon",
    "nemotron",
    "biogpt",
    "codegen",
    "bert-generation",
    "big_bird",
    "roformer",
}  # two matrices in the feed-forward block
TIED_EMBEDDINGS = BERT_FAMILIES | {
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3_text",
    "gpt2",
    "gpt_bigcode",
    "opt",
    "bloom",
    "mpt",
    "cohere",
    "cohere2",
    "biogpt",
    "lfm2",
    "lfm2_moe",
    "gemma3n",
    "gemma3n_text",
    "gemma4",
    "gemma4_text",
    "lfm3",
}
FULL_ATTENTION_INTERVALS = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3_text": 6,
    "gpt_oss": 2,
    "cohere2": 4,
}  # one layer in n attends to all tokens
FOUR_NORM_FAMILIES = {"gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text"}
ONE_NORM_FAMILIES = {"phi", "cohere", "cohere2"}  # attention and feed-forward share it
QK_NORM_FAMILIES = {"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "gemma3", "gemma3_text"}
QKV_BIAS_FAMILIES = {"qwen2", "qwen2_moe"}
FULLY_BIASED_FAMILIES = BERT_FAMILIES | {
    "gpt2",
    "gpt_neox",
    "gptj",
    "opt",
    "bloom",
    "phi",
    "starcoder2",
    "jais2",
    "biogpt",
    "bert-generation",
    "big_bird",
    "roformer",
}
HYBRID_FAMILIES = {"granitemoehybrid", "nemotron_h"}  # their state-space layers are counted
LLAMA4_FAMILIES = {"llama4", "llama4_text"}
STATE_SPACE_KEYS = (
    "hybrid_override_pattern",
    "mamba_num_heads",
    "mamba_d_state",
    "ssm_state_size",
    "ssm_cfg",
)
STATE_TYPES = {"float32": 4, "bfloat16": 2, "float16": 2}  # bytes of one element
MODELOPT_FILE = "hf_quant_config.json"  # NVIDIA's Model Optimizer states its formats beside the config.json
DEFAULT_CONTEXT = {"falcon": 2048, "RefinedWebModel": 2048, "RefinedWeb": 2048}


def read_huggingface_model(path: Path) -> ModelArchitecture:
    """Return the model that a config.json describes."""
    document, separate = _load_document(path), path.with_name(MODELOPT_FILE)
    if "quantization_config" not in document and separate.is_file():
        document["quantization_config"] = {"quant_method": "modelopt", **_load_document(separate)}
    return parse_huggingface_config(document, where=str(path), name=_model_name(path))


def parse_huggingface_config(document: dict[str, Any], *, where: str, name: str) -> ModelArchitecture:
    """Return the model of a parsed config.json; of a multimodal model, the language part."""
    try:
        return _build_architecture(document, where=where, name=name)
    except (TypeError, AttributeError, ValueError, ArithmeticError, LookupError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("has a setting of an unexpected type", where=where) from error


def _build_architecture(document: dict[str, Any], *, where: str, name: str) -> ModelArchitecture:
    keys = {**document, **_language_config(document)}
    config = HuggingFaceConfig(where, keys)
    check_family(config)
    check_structural_keys(_language_config(document) or document, config.model_type, where)
    state_space = next((key for key in STATE_SPACE_KEYS if keys.get(key) is not None), None)
    if state_space and config.model_type not in HYBRID_FAMILIES:
        raise InputError("has state-space layers, which are not supported", where=where, key=state_space)
    layers, hidden = (
        _layer_count(config),
        _hidden_size(config),
    )
    heads = _positive_number(config, "num_attention_heads", "n_head", "n_heads")
    latent = _build_latent_attention(config)
    linear = None if config.model_type in HYBRID_FAMILIES else _build_linear_attention(config, layers)
    head_dim = config.get_integer("head_dim", "kv_channels", default=hidden // heads)
    experts = _build_experts(config, layers)
    vision_parameters, note = count_tower_parameters(document)
    window, window_layers = _sliding_window(config, layers, linear.layers if linear else 0)
    model = add_family_parts(
        ModelArchitecture(
            name=name,
            family=config.model_type or "unknown",
            parameters=0.0,
            active_parameters=0.0,
            layers=layers,
            hidden=hidden,
            heads=heads,
            kv_heads=_kv_head_count(config, heads),
            head_dim=head_dim,
            intermediate=_intermediate_size(config, hidden, experts),
            vocabulary=config.get_integer("vocab_size", "padded_vocab_size"),
            tied_embeddings=bool(keys.get("tie_word_embeddings", config.model_type in TIED_EMBEDDINGS)),
            max_context=config.get_integer(
                "max_position_embeddings",
                "n_positions",
                "max_sequence_length",
                "max_seq_len",
                "seq_length",
                default=DEFAULT_CONTEXT.get(config.model_type, 0),  # 0: unknown, and nothing follows from it
            ),
            experts=experts,
            latent=latent,
            linear=linear,
            sliding_window=window,
            sliding_layers=window_layers,
            gated=config.model_type not in UNGATED_FAMILIES,
            biases=_bias_names(config),
            norms=4
            if config.model_type in FOUR_NORM_FAMILIES
            else 1
            if config.model_type in ONE_NORM_FAMILIES
            else 2,
            qk_norm=head_dim if config.model_type in QK_NORM_FAMILIES else 0,
            positions=config.get_integer("n_positions", default=0) if config.model_type == "gpt2" else 0,
            query_gate=bool(config.get_first_value("attn_output_gate")) or config.model_type == "qwen3_next",
            source=where,
            vision_parameters=vision_parameters,
            note=note,
        ),
        config,
    )
    model = with_parameter_counts(model)
    if not 0 < model.active_parameters <= model.parameters:  # settings that contradict each other
        raise InputError("describes a model without weights", where=where, key="num_hidden_layers")
    return _with_quantization(model, config)


def _load_document(path: Path) -> dict[str, Any]:
    # Python writes Infinity for the limits of state-space layers, which no count uses
    # and NVIDIA lists each quantised matrix: MiniMax-M3-NVFP4 has 2.4 MB
    content = read_bytes(path, LARGE_DOCUMENT)
    return decode_json_object(content, str(path), LARGE_DOCUMENT, has_python_constants=True)


def _model_name(path: Path) -> str:
    return path.parent.name if path.name == "config.json" and path.parent.name else path.stem


def _language_config(document: dict[str, Any]) -> dict[str, Any]:
    for key in ("text_config", "llm_config", "language_config"):
        if isinstance(document.get(key), dict):
            return dict(document[key])
    return {}


def _layer_count(config: HuggingFaceConfig) -> int:
    blocks = config.get_first_value("layers_block_type")
    default = len(blocks) if isinstance(blocks, list) else None
    return config.get_integer("num_hidden_layers", "n_layer", "n_layers", "num_layers", default=default)


def _hidden_size(config: HuggingFaceConfig) -> int:
    return _positive_number(config, "hidden_size", "n_embd", "d_model", "model_dim")


def _positive_number(config: HuggingFaceConfig, *names: str) -> int:
    value = config.get_integer(*names)
    if not value:
        raise InputError("must be above zero", where=config.where, key=names[0])
    return value


def _kv_head_count(config: HuggingFaceConfig, heads: int) -> int:
    attention_config = config.get_first_value("attn_config")
    if isinstance(attention_config, dict) and attention_config.get("kv_n_heads"):
        return int(attention_config["kv_n_heads"])
    if config.get_first_value("multi_query") and not config.get_first_value("new_decoder_architecture"):
        return 1
    return config.get_integer(
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "num_query_groups", default=heads
    )


def _intermediate_size(config: HuggingFaceConfig, hidden: int, experts: MixtureOfExperts | None) -> int:
    if config.model_type in LLAMA4_FAMILIES:
        return config.get_integer("intermediate_size_mlp", "intermediate_size")
    widths = config.get_first_value("intermediate_size")
    if (
        isinstance(widths, list) and widths and len(set(map(str, widths))) == 1
    ):  # Gemma 3n: one for each layer
        return HuggingFaceConfig(config.where, {"intermediate_size": widths[0]}).get_integer(
            "intermediate_size"
        )
    width = config.get_first_value(
        "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "feed_forward_proj"
    )
    if width is not None or config.model_type not in UNGATED_FAMILIES:
        default = 0 if experts else None
        return config.get_integer(
            "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", default=default
        )
    return int((config.get_first_value("expansion_ratio") or 4) * hidden)


def _build_experts(config: HuggingFaceConfig, layers: int) -> MixtureOfExperts | None:
    count = config.get_integer(
        "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", default=0
    )
    if not count:
        return None
    width = config.get_integer("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
    shared_width = config.get_integer(
        "shared_expert_intermediate_size", "shared_intermediate_size", default=0
    )
    shared = config.get_integer(
        "n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=1 if shared_width else 0
    )
    return MixtureOfExperts(
        count=count,
        per_token=_positive_number(
            config, "num_experts_per_tok", "experts_per_token", "moe_topk", "top_k_experts", "moe_k"
        ),
        shared=1 if config.model_type in LLAMA4_FAMILIES else shared,
        intermediate=width,
        dense_layers=_dense_layer_count(config, layers),
        shared_intermediate=shared_width,
    )


def _dense_layer_count(config: HuggingFaceConfig, layers: int) -> int:
    kinds = config.get_first_value("mlp_layer_types")
    if isinstance(kinds, list):
        return kinds.count("dense")
    frequency = config.get_first_value("moe_layer_freq")
    if isinstance(frequency, list):  # MiMo: 1 for each layer with experts
        return sum(not each for each in frequency[:layers])
    if config.get_first_value("moe_layer_start_index"):  # ERNIE 4.5
        last = (
            config.get_integer("moe_layer_end_index", default=layers - 1)
            if config.get_first_value("moe_layer_end_index") != -1
            else layers - 1
        )
        return layers - (min(last, layers - 1) - config.get_integer("moe_layer_start_index") + 1)
    if config.get_first_value("mlp_only_layers"):
        return len(config.get_first_value("mlp_only_layers"))
    step = config.get_integer("interleave_moe_layer_step", "decoder_sparse_step", default=1)
    if step > 1:
        return layers - layers // step
    return config.get_integer("first_k_dense_replace", "num_dense_layers", default=0)


def _build_latent_attention(config: HuggingFaceConfig) -> LatentAttention | None:
    if not config.get_first_value("kv_lora_rank"):
        return None
    return LatentAttention(
        kv_rank=config.get_integer("kv_lora_rank"),
        rope_dim=config.get_integer("qk_rope_head_dim"),
        q_rank=config.get_integer("q_lora_rank", default=0),
        value_dim=config.get_integer("v_head_dim"),
        nope_dim=config.get_integer("qk_nope_head_dim"),
    )


def _build_linear_attention(config: HuggingFaceConfig, layers: int) -> LinearAttention | None:
    layer_types = config.get_first_value("layer_types") or []
    interval = config.get_integer("full_attention_interval", default=0)
    count = layer_types.count("linear_attention") or (
        layers - layers // interval if interval and not layer_types else 0
    )
    if not count:
        return None
    return LinearAttention(
        layers=count,
        key_heads=config.get_integer("linear_num_key_heads"),
        key_dim=config.get_integer("linear_key_head_dim"),
        value_heads=config.get_integer("linear_num_value_heads"),
        value_dim=config.get_integer("linear_value_head_dim"),
        convolution=config.get_integer("linear_conv_kernel_dim", default=4),
        state_bytes=_recurrent_state_bytes(config),
    )


def _recurrent_state_bytes(config: HuggingFaceConfig) -> int:
    """Return the bytes of one element of the recurrent state: as wide as the model if it states no type.

    Source: vLLM's MambaStateDtypeCalculator.gated_delta_net_state_dtype; Qwen3.5's config.json states float32.
    """
    key = "mamba_ssm_dtype"
    name = config.get_first_value(key)
    if name is None:
        return STATE_TYPES["bfloat16"]
    if not isinstance(name, str) or name not in STATE_TYPES:
        raise InputError(
            f"{shorten_value(name)} is not a type of a state",
            where=config.where,
            key=key,
            remedy=f"expected one of {', '.join(STATE_TYPES)}",
        )
    return STATE_TYPES[name]


def _sliding_window(config: HuggingFaceConfig, layers: int, linear_layers: int) -> tuple[int, int]:
    """Return the window and how many layers have it."""
    window = config.get_integer("sliding_window", "sliding_window_size", "attention_chunk_size", default=0)
    if not window or config.get_first_value("use_sliding_window") is False:
        return 0, 0
    layer_types = config.get_first_value("layer_types")
    if isinstance(layer_types, list):
        return window, sum(kind in {"sliding_attention", "chunked_attention"} for kind in layer_types)
    if config.model_type in LLAMA4_FAMILIES:
        return window, layers - layers // 4
    interval = config.get_integer(
        "sliding_window_pattern",
        "_sliding_window_pattern",
        default=FULL_ATTENTION_INTERVALS.get(config.model_type, 0),
    )
    if interval:
        return window, layers - layers // interval
    if config.model_type in QKV_BIAS_FAMILIES | {"qwen3", "qwen3_moe"}:
        return window, max(0, layers - config.get_integer("max_window_layers", default=layers))
    return window, layers - linear_layers


def _bias_names(config: HuggingFaceConfig) -> tuple[str, ...]:
    biases = {"qkv"} if config.model_type in QKV_BIAS_FAMILIES else set()
    if config.get_first_value("attention_bias") and config.model_type not in {"deepseek_v2", "deepseek_v3"}:
        biases |= {"qkv", "o"}
    if config.get_first_value("mlp_bias"):
        biases.add("mlp")
    if config.model_type == "gpt_oss":
        biases |= {"qkv", "o", "experts"}
    if config.model_type in FULLY_BIASED_FAMILIES:
        biases |= {"qkv", "o", "mlp", "norm"}
    if config.model_type == "phi":
        biases.add("head")
    if config.model_type in {"falcon", "stablelm", "mpt"}:
        biases.add("norm")
    return tuple(sorted(biases))


def _with_quantization(model: ModelArchitecture, config: HuggingFaceConfig) -> ModelArchitecture:
    """Return the model with the bits of its quantised weights, if the file states a quantisation."""
    values = config.get_first_value("quantization_config", "compression_config", "quantization")
    if values is None:
        return model
    if not isinstance(values, dict):
        raise InputError(
            f"{shorten_value(values)} is not an object", where=config.where, key="quantization_config"
        )
    if config.get_first_value("expert_dtype"):  # DeepSeek V4 states its experts' format outside
        values = {"expert_dtype": config.get_first_value("expert_dtype"), **values}
    method, quantization = read_quantization_method(values, config.where)
    stored = resolve_quantization(model, method, quantization, config.where)
    return replace(model, quantization=stored, stored_precision=stored.precision if stored else "")
