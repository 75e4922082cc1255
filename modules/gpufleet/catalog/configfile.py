"""An architecture from a Hugging Face ``config.json``, known family or not, as long as the usual keys are there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.boundary import decode_json_object, read_bytes
from gpufleet.catalog.architecture import Architecture, Experts, LatentAttention, LinearAttention
from gpufleet.catalog.parameters import counted
from gpufleet.errors import InputError

PLAIN_BLOCKS = {
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
}  # two matrices in the feed-forward block
TIED = {
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
}
ALTERNATING = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3_text": 6,
    "gpt_oss": 2,
    "cohere2": 4,
}  # one layer in n sees all
FOUR_NORMS = {"gemma2", "gemma3", "gemma3_text"}
ONE_NORM = {"phi", "cohere", "cohere2"}  # attention and feed-forward share it
QK_NORMED = {"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "gemma3", "gemma3_text"}
QKV_BIASED = {"qwen2", "qwen2_moe"}
LLAMA4 = {"llama4", "llama4_text"}
STATE_SPACE = ("hybrid_override_pattern", "mamba_num_heads", "mamba_d_state", "ssm_state_size", "ssm_cfg")
SHOWN = 40  # characters of a wrong value in a message
LARGEST = 10**12  # of any setting: beyond it stand infinity and slips of the keyboard
DEFAULT_CONTEXT = {"falcon": 2048, "RefinedWebModel": 2048, "RefinedWeb": 2048}


@dataclass(frozen=True)
class Config:
    """The file's keys, with the path for messages."""

    where: str
    keys: dict[str, Any]

    def get(self, *names: str) -> Any:
        """Return the first of these keys that has a value, else None."""
        return next((self.keys[name] for name in names if self.keys.get(name) is not None), None)

    def number(self, *names: str, default: int | None = None) -> int:
        """Return a whole positive number; a missing one without default is an InputError."""
        key = next((name for name in names if self.keys.get(name) is not None), names[0])
        value = self.keys.get(key)
        if value is None:
            if default is not None:
                return default
            raise InputError(
                "is missing", where=self.where, key=key, remedy="the model's size follows from it"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST:
            raise InputError(f"{_short(value)} is no whole number", where=self.where, key=key)
        if value != int(value):
            raise InputError(f"{value!r} is no whole number", where=self.where, key=key)
        return int(value)

    @property
    def kind(self) -> str:
        """Return the model type, or an empty text."""
        return str(self.keys.get("model_type") or "")


def read(path: Path) -> Architecture:
    """Return the model that a config.json describes."""
    return parse(_load(path), where=str(path), name=_name(path))


def parse(document: dict[str, Any], *, where: str, name: str) -> Architecture:
    """Return the model of a parsed config.json; language part only where there are several."""
    try:
        return _parsed(document, where=where, name=name)
    except (TypeError, AttributeError, ValueError, ArithmeticError, LookupError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("holds a setting of another kind than its name says", where=where) from error


def _parsed(document: dict[str, Any], *, where: str, name: str) -> Architecture:
    keys = {**document, **_nested(document)}
    config = Config(where, keys)
    if config.get(*STATE_SPACE) is not None:
        raise InputError("has state-space layers, whose weights we cannot count", where=where)
    layers, hidden = config.number("num_hidden_layers", "n_layer", "n_layers", "num_layers"), _hidden(config)
    heads = _positive(config, "num_attention_heads", "n_head", "n_heads")
    latent = _latent(config)
    linear = _linear(config, layers)
    head_dim = config.number("head_dim", "kv_channels", default=hidden // heads)
    experts = _experts(config, layers)
    window, windowed = _sliding(config, layers, linear.layers if linear else 0)
    return counted(
        Architecture(
            name=name,
            family=config.kind or "unknown",
            parameters=0.0,
            active_parameters=0.0,
            layers=layers,
            hidden=hidden,
            heads=heads,
            kv_heads=_kv_heads(config, heads),
            head_dim=head_dim,
            intermediate=_intermediate(config, hidden, experts),
            vocabulary=config.number("vocab_size", "padded_vocab_size"),
            tied_embeddings=bool(keys.get("tie_word_embeddings", config.kind in TIED)),
            max_context=config.number(
                "max_position_embeddings",
                "n_positions",
                "max_sequence_length",
                "max_seq_len",
                "seq_length",
                default=DEFAULT_CONTEXT.get(config.kind, 0),  # 0: unknown, and nothing follows from it
            ),
            experts=experts,
            latent=latent,
            linear=linear,
            sliding_window=window,
            sliding_layers=windowed,
            gated=config.kind not in PLAIN_BLOCKS,
            biases=_biases(config),
            norms=4 if config.kind in FOUR_NORMS else 1 if config.kind in ONE_NORM else 2,
            qk_norm=head_dim if config.kind in QK_NORMED else 0,
            positions=config.number("n_positions", default=0) if config.kind == "gpt2" else 0,
            query_gate=bool(config.get("attn_output_gate")) or config.kind == "qwen3_next",
            source=where,
            stored_precision=_precision(config),
        )
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _load(path: Path) -> dict[str, Any]:
    return decode_json_object(read_bytes(path), str(path))


def _name(path: Path) -> str:
    return path.parent.name if path.name == "config.json" and path.parent.name else path.stem


def _nested(document: dict[str, Any]) -> dict[str, Any]:
    for key in ("text_config", "llm_config", "language_config"):
        if isinstance(document.get(key), dict):
            return dict(document[key])
    return {}


def _hidden(config: Config) -> int:
    return _positive(config, "hidden_size", "n_embd", "d_model", "model_dim")


def _positive(config: Config, *names: str) -> int:
    value = config.number(*names)
    if not value:
        raise InputError("must be above zero", where=config.where, key=names[0])
    return value


def _kv_heads(config: Config, heads: int) -> int:
    inner = config.get("attn_config")
    if isinstance(inner, dict) and inner.get("kv_n_heads"):
        return int(inner["kv_n_heads"])
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        return 1
    return config.number(
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "num_query_groups", default=heads
    )


def _intermediate(config: Config, hidden: int, experts: Experts | None) -> int:
    if config.kind in LLAMA4:
        return config.number("intermediate_size_mlp", "intermediate_size")
    given = config.get("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "feed_forward_proj")
    if given is not None or config.kind not in PLAIN_BLOCKS:
        default = 0 if experts else None
        return config.number("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", default=default)
    return int((config.get("expansion_ratio") or 4) * hidden)


def _experts(config: Config, layers: int) -> Experts | None:
    count = config.number(
        "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", default=0
    )
    if not count:
        return None
    width = config.number("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
    shared_width = config.number("shared_expert_intermediate_size", "shared_intermediate_size", default=0)
    shared = config.number("n_shared_experts", "num_shared_experts", default=1 if shared_width else 0)
    return Experts(
        count=count,
        per_token=_positive(config, "num_experts_per_tok", "experts_per_token", "moe_topk", "top_k_experts"),
        shared=1 if config.kind in LLAMA4 else shared,
        intermediate=width,
        dense_layers=_dense_layers(config, layers),
        shared_intermediate=shared_width,
    )


def _dense_layers(config: Config, layers: int) -> int:
    if config.get("mlp_only_layers"):
        return len(config.get("mlp_only_layers"))
    step = config.number("interleave_moe_layer_step", "decoder_sparse_step", default=1)
    if step > 1:
        return layers - layers // step
    return config.number("first_k_dense_replace", default=0)


def _latent(config: Config) -> LatentAttention | None:
    if not config.get("kv_lora_rank"):
        return None
    return LatentAttention(
        kv_rank=config.number("kv_lora_rank"),
        rope_dim=config.number("qk_rope_head_dim"),
        q_rank=config.number("q_lora_rank", default=0),
        value_dim=config.number("v_head_dim"),
        nope_dim=config.number("qk_nope_head_dim"),
    )


def _linear(config: Config, layers: int) -> LinearAttention | None:
    kinds = config.get("layer_types") or []
    interval = config.number("full_attention_interval", default=0)
    count = kinds.count("linear_attention") or (layers - layers // interval if interval and not kinds else 0)
    if not count:
        return None
    return LinearAttention(
        layers=count,
        key_heads=config.number("linear_num_key_heads"),
        key_dim=config.number("linear_key_head_dim"),
        value_heads=config.number("linear_num_value_heads"),
        value_dim=config.number("linear_value_head_dim"),
        convolution=config.number("linear_conv_kernel_dim", default=4),
    )


def _sliding(config: Config, layers: int, linear: int) -> tuple[int, int]:
    """Return the window and how many layers have it."""
    window = config.number("sliding_window", "sliding_window_size", "attention_chunk_size", default=0)
    if not window or config.get("use_sliding_window") is False:
        return 0, 0
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        return window, sum(kind in {"sliding_attention", "chunked_attention"} for kind in kinds)
    if config.kind in LLAMA4:
        return window, layers - layers // 4
    every = config.number(
        "sliding_window_pattern", "_sliding_window_pattern", default=ALTERNATING.get(config.kind, 0)
    )
    if every:
        return window, layers - layers // every
    if config.kind in QKV_BIASED | {"qwen3", "qwen3_moe"}:
        return window, max(0, layers - config.number("max_window_layers", default=layers))
    return window, layers - linear


def _biases(config: Config) -> tuple[str, ...]:
    found = {"qkv"} if config.kind in QKV_BIASED else set()
    if config.get("attention_bias") and config.kind not in {"deepseek_v2", "deepseek_v3"}:
        found |= {"qkv", "o"}
    if config.get("mlp_bias"):
        found.add("mlp")
    if config.kind == "gpt_oss":
        found |= {"qkv", "o", "experts"}
    if config.kind in {"gpt2", "gpt_neox", "gptj", "opt", "bloom", "phi", "starcoder2"}:
        found |= {"qkv", "o", "mlp", "norm"}
    if config.kind == "phi":
        found.add("head")
    if config.kind in {"falcon", "stablelm", "mpt"}:
        found.add("norm")
    return tuple(sorted(found))


def _precision(config: Config) -> str:
    """Return what the file says the weights are quantised to, else an empty text."""
    quantised = config.get("quantization_config")
    if not isinstance(quantised, dict):
        return ""
    method = str(quantised.get("quant_method") or "").lower()
    bits, group = quantised.get("bits"), quantised.get("group_size")
    if method in {"gptq", "awq"} and bits in {4, 8}:
        return f"int{bits}-g{group}" if isinstance(group, int) and group > 0 else f"int{bits}"
    if method == "bitsandbytes":
        return "nf4" if quantised.get("load_in_4bit") else "int8"
    return {"fp8": "fp8", "mxfp4": "mxfp4", "nvfp4": "nvfp4"}.get(method, "")
