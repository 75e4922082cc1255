"""What families of models have beside attention and feed-forward blocks, from the keys of their config.json.

Each rule is compared with the family's class in transformers 5.24 on the meta device (tests/catalog/
test_model_families.py). Families in ``refused_families.csv`` are refused with the key that changes their count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from gpufleet.catalog.architecture import ExtraMatrix, LayerCache, ModelArchitecture
from gpufleet.catalog.data_file import load_catalog_rows
from gpufleet.catalog.huggingface_document import HuggingFaceConfig
from gpufleet.errors import InputError

STATE_BYTES, WINDOW_BYTES = 4.0, 2.0  # of one element of a recurrent matrix, of a convolution's window
INDEXER_SCALE_BYTES = 4  # beside a token's indexer key in 8 bits; DeepSeek-V3.2 inference/model.py
ENCODER_NOTE = (
    "an encoder generates no tokens: its speeds are documents a second of --context tokens, "
    "its cost is of a million documents"
)
INDEXER_NOTE = "prompt times leave out the scores of its indexer"
Family = Callable[[ModelArchitecture, HuggingFaceConfig], ModelArchitecture]


def check_family(config: HuggingFaceConfig) -> None:
    """Raise InputError for a family that is not counted, with the key that changes its count."""
    row = _load_refused_families().get(config.model_type)
    if row:
        raise InputError(
            f"a model of type {config.model_type} is not supported: {row[1]}",
            where=config.where,
            key=row[0],
            remedy="give a GGUF file of it, which states its tensors",
        )


def add_family_parts(model: ModelArchitecture, config: HuggingFaceConfig) -> ModelArchitecture:
    """Return the model with the parts that only its family has."""
    adapt = FAMILIES.get(config.model_type)
    model = adapt(model, config) if adapt else model
    return _add_indexer(model, config) if model.latent else model


@cache
def _load_refused_families() -> dict[str, tuple[str, str]]:
    return {
        row["model_type"]: (row["key"], row["reason"]) for row in load_catalog_rows("refused_families.csv")
    }


def _add_indexer(model: ModelArchitecture, config: HuggingFaceConfig) -> ModelArchitecture:
    """Add DeepSeek V3.2's indexer: each token also keeps a key of the indexer, in 8 bits with a scale."""
    dim, latent = config.get_integer("index_head_dim", default=0), model.latent
    if not dim or latent is None:
        return model
    heads = config.get_integer("index_n_heads", default=0)
    kinds = config.get_first_value("indexer_types")
    layers = kinds.count("full") if isinstance(kinds, list) else model.layers
    top = config.get_integer("index_topk", default=0)
    caches = (
        LayerCache(model.layers, latent.kv_rank + latent.rope_dim, top=top),
        LayerCache(layers, 0, is_index=True, byte_elements=dim + INDEXER_SCALE_BYTES),
    )
    extra = (
        ExtraMatrix("latent", heads * dim, latent.q_rank or model.hidden, layers),
        ExtraMatrix("latent", dim + heads, model.hidden, layers),
    )
    return replace(
        model,
        extra_matrices=(*model.extra_matrices, *extra),
        caches=tuple(cache for cache in caches if cache.layers),
        note=_add_note(model, INDEXER_NOTE),
    )


def _adapt_encoder(model: ModelArchitecture, config: HuggingFaceConfig) -> ModelArchitecture:
    positions = config.get_integer("max_position_embeddings") + config.get_integer(
        "type_vocab_size", default=0
    )
    head = ExtraMatrix("output", model.hidden, model.hidden)
    model = replace(model, positions=positions, extra_matrices=(head,))
    if config.get_first_value("is_decoder"):
        return model
    return replace(model, caches=(LayerCache(layers=0, elements=0),), note=_add_note(model, ENCODER_NOTE))


def _add_note(model: ModelArchitecture, note: str) -> str:
    return "; ".join(filter(None, (model.note, note)))


def _adapt_learned_positions(model: ModelArchitecture, config: HuggingFaceConfig) -> ModelArchitecture:
    if config.get_integer("word_embed_proj_dim", default=model.hidden) != model.hidden:
        raise InputError("differs from hidden_size", where=config.where, key="word_embed_proj_dim")
    return replace(model, positions=config.get_integer("max_position_embeddings") + 2)


def _adapt_attention_gate(model: ModelArchitecture, _config: HuggingFaceConfig) -> ModelArchitecture:
    return replace(model, query_gate=True)


def _adapt_lfm2(model: ModelArchitecture, config: HuggingFaceConfig) -> ModelArchitecture:
    """Convolutional layers: three input matrices, a short convolution and an output matrix."""
    kinds = config.get_first_value("layer_types")
    attending = (
        sum(kind != "conv" for kind in kinds)
        if isinstance(kinds, list)
        else len(config.get_first_value("full_attn_idxs") or ())
    )
    layers, window = model.layers - attending, config.get_integer("conv_L_cache", default=3)
    width = model.intermediate
    if config.model_type == "lfm2" and config.keys.get("block_auto_adjust_ff_dim", True):
        multiple = config.get_integer("block_multiple_of", default=256) or 1
        width = int(2 * width / 3 * float(config.get_first_value("block_ffn_dim_multiplier") or 1.0))
        width = -(-width // multiple) * multiple
    extra = (
        ExtraMatrix("linear", 3 * model.hidden, model.hidden, layers),
        ExtraMatrix("small", model.hidden, window, layers),
        ExtraMatrix("o", model.hidden, model.hidden, layers),
    )
    return replace(
        model,
        intermediate=width,
        extra_matrices=extra,
        attention_layers=model.layers - layers,
        state_bytes=layers * model.hidden * window * WINDOW_BYTES,
        qk_norm=model.head_dim,
    )


def _list_per_layer_inputs(model: ModelArchitecture, config: HuggingFaceConfig) -> tuple[ExtraMatrix, ...]:
    """Return Gemma's per-layer embeddings: a second embedding with a vector for each layer, and its projections."""
    width = config.get_integer("hidden_size_per_layer_input", default=0)
    if not width:
        return ()
    vocabulary = config.get_integer("vocab_size_per_layer_input", default=model.vocabulary)
    return (
        ExtraMatrix("embedding", vocabulary, width * model.layers),
        ExtraMatrix("linear", width * model.layers, model.hidden),
        ExtraMatrix("linear", 2 * width, model.hidden, model.layers),
    )


def _list_window_caches(model: ModelArchitecture, config: HuggingFaceConfig) -> tuple[LayerCache, ...]:
    """Return the caches of layers with and without window; the last layers may share those of earlier ones."""
    kinds = config.get_first_value("layer_types")
    shared = config.get_integer("num_kv_shared_layers", default=0)
    if not isinstance(kinds, list):
        return ()
    own = kinds[: model.layers - shared]
    near = own.count("sliding_attention")
    elements = 2 * model.kv_heads * model.head_dim
    far_dim = config.get_integer("global_head_dim", default=model.head_dim) or model.head_dim
    far_heads = config.get_integer("num_global_key_value_heads", default=model.kv_heads) or model.kv_heads
    caches = (
        LayerCache(near, elements, model.sliding_window),
        LayerCache(len(own) - near, 2 * far_heads * far_dim),
    )
    return tuple(cache for cache in caches if cache.layers)


def _adapt_gemma3n(model: ModelArchitecture, config: HuggingFaceConfig) -> ModelArchitecture:
    inputs = config.get_integer("altup_num_inputs", default=4)
    rank = config.get_integer("laurel_rank", default=64)
    shared = config.get_integer("num_kv_shared_layers", default=0)
    keys = model.kv_heads * model.head_dim
    extra = (
        *_list_per_layer_inputs(model, config),
        ExtraMatrix("linear", 2 * max(0, inputs - 1) * model.hidden, model.hidden),
        ExtraMatrix("linear", 2 * rank, model.hidden, model.layers),
        ExtraMatrix("small", inputs, model.hidden, model.layers),
        ExtraMatrix(
            "k", -2 * keys, model.hidden, shared
        ),  # layers that share a cache have no keys and values
    )
    return replace(model, extra_matrices=extra, caches=_list_window_caches(model, config))


def _adapt_gemma4(model: ModelArchitecture, config: HuggingFaceConfig) -> ModelArchitecture:
    kinds = config.get_first_value("layer_types")
    far = kinds.count("full_attention") if isinstance(kinds, list) else 0
    if config.get_first_value("use_double_wide_mlp"):
        raise InputError("is not supported", where=config.where, key="use_double_wide_mlp")
    dim = config.get_integer("global_head_dim", default=0)
    per_layer = config.get_first_value("per_layer_config")
    if not dim and isinstance(per_layer, dict):
        dim = max((int(entry.get("head_dim", 0)) for entry in per_layer.values()), default=0)
    dim = dim or model.head_dim
    heads = config.get_integer("num_global_key_value_heads", default=model.kv_heads) or model.kv_heads
    matrices = 1 if config.get_first_value("attention_k_eq_v") else 2
    shared = config.get_integer("num_kv_shared_layers", default=0)
    keys = matrices * heads * dim - 2 * model.kv_heads * model.head_dim
    extra = [
        *_list_per_layer_inputs(model, config),
        ExtraMatrix("q", 2 * model.heads * (dim - model.head_dim), model.hidden, far),
        ExtraMatrix("k", keys, model.hidden, far),
        ExtraMatrix("k", -2 * model.kv_heads * model.head_dim, model.hidden, shared),
    ]
    if model.experts:  # each layer has a dense block beside its experts
        extra.append(ExtraMatrix("dense up", 3 * model.intermediate, model.hidden, model.layers))
    return replace(
        model,
        extra_matrices=tuple(part for part in extra if part.rows),
        caches=_list_window_caches(model, config),
    )


def _add_mamba2(
    model: ModelArchitecture, config: HuggingFaceConfig, layers: int, *, names: tuple[str, str, str, str, str]
) -> ModelArchitecture:
    """Add Mamba-2 layers; ``names`` are the keys of heads, their width, state, groups and kernel."""
    heads, dim, state, groups, kernel = (config.get_integer(name) for name in names)
    inner = heads * dim
    window = inner + 2 * groups * state
    extra = (
        ExtraMatrix("linear", inner + window + heads, model.hidden, layers),
        ExtraMatrix("small", window, kernel + 1, layers),
        ExtraMatrix("small", inner + 3 * heads, 1, layers),
        ExtraMatrix("o", model.hidden, inner, layers),
    )
    return replace(
        model,
        extra_matrices=(*model.extra_matrices, *extra),
        state_bytes=layers * (inner * state * STATE_BYTES + window * kernel * WINDOW_BYTES),
    )


GRANITE_NAMES = ("mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv")
NEMOTRON_NAMES = ("mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel")
RECURRENT_KINDS = {"mamba", "linear_attention"}
BLOCK_LETTERS = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}


def _adapt_granite_hybrid(model: ModelArchitecture, config: HuggingFaceConfig) -> ModelArchitecture:
    """Granite 4: Mamba-2 or attention, then a shared block, beside experts if it has any."""
    kinds = config.get_first_value("layer_types") or []
    recurrent = sum(kind in RECURRENT_KINDS for kind in kinds) if isinstance(kinds, list) else 0
    shared = config.get_integer("shared_intermediate_size", default=0)
    if model.experts is None:
        model = replace(model, intermediate=shared or model.intermediate)
    else:
        model = replace(model, experts=replace(model.experts, dense_layers=0))
    model = replace(model, attention_layers=model.layers - recurrent, linear=None)
    return _add_mamba2(model, config, recurrent, names=GRANITE_NAMES) if recurrent else model


def _adapt_nemotron_h(model: ModelArchitecture, config: HuggingFaceConfig) -> ModelArchitecture:
    """Nemotron-H: each layer is one block: Mamba-2, attention, feed-forward or experts."""
    pattern = config.get_first_value("hybrid_override_pattern")
    kinds = (
        [BLOCK_LETTERS.get(letter, letter) for letter in pattern]
        if isinstance(pattern, str)
        else config.get_first_value("layers_block_type")
    )
    known = {*BLOCK_LETTERS.values(), "mamba", "attention"}
    if not isinstance(kinds, list) or not set(map(str, kinds)) <= known:
        raise InputError("has an unknown kind of layer", where=config.where, key="layers_block_type")
    count = {kind: kinds.count(kind) for kind in known}
    attending, recurrent = (
        count["full_attention"] + count["attention"],
        count["linear_attention"] + count["mamba"],
    )
    wide = 2 * model.intermediate
    experts = model.experts and replace(
        model.experts,
        dense_layers=len(kinds) - count["moe"],
        shared_intermediate=config.get_integer("moe_shared_expert_intermediate_size", default=0),
        latent=config.get_integer("moe_latent_size", default=0),
    )
    dense = ExtraMatrix("dense up", wide, model.hidden, count["mlp"])
    model = replace(
        model,
        layers=len(kinds),
        norms=1,
        gated=False,
        intermediate=0,
        experts=experts if count["moe"] else None,
        linear=None,
        attention_layers=attending,
        extra_matrices=(dense,) if dense.layers else (),
    )
    return _add_mamba2(model, config, recurrent, names=NEMOTRON_NAMES) if recurrent else model


def _adapt_longcat(model: ModelArchitecture, config: HuggingFaceConfig) -> ModelArchitecture:
    """LongCat-Flash: each layer has two attention blocks and two dense ones beside its experts."""
    latent, experts = model.latent, model.experts
    if latent is None or experts is None:
        raise InputError("is missing", where=config.where, key="kv_lora_rank")
    width = config.get_integer("ffn_hidden_size")
    idle = config.get_integer("zero_expert_num", default=0)
    query = model.heads * (latent.nope_dim + latent.rope_dim)
    extra = (
        ExtraMatrix("q", latent.q_rank, model.hidden, model.layers),
        ExtraMatrix("q", query, latent.q_rank, model.layers),
        ExtraMatrix("latent", latent.kv_rank + latent.rope_dim, model.hidden, model.layers),
        ExtraMatrix(
            "latent", model.heads * (latent.nope_dim + latent.value_dim), latent.kv_rank, model.layers
        ),
        ExtraMatrix("o", model.hidden, model.heads * latent.value_dim, model.layers),
        ExtraMatrix("dense up", 6 * width, model.hidden, model.layers),
        ExtraMatrix("router", idle, model.hidden, model.layers),
    )
    return replace(
        model,
        intermediate=0,
        norms=4,
        extra_matrices=tuple(part for part in extra if part.rows),
        caches=(LayerCache(2 * model.layers, latent.kv_rank + latent.rope_dim),),
    )


def _adapt_latent_gate(model: ModelArchitecture, _config: HuggingFaceConfig) -> ModelArchitecture:
    width = model.heads * (model.latent.value_dim if model.latent else model.head_dim)
    return replace(model, extra_matrices=(ExtraMatrix("q", width, model.hidden, model.layers),))


def _adapt_deepseek_v4(model: ModelArchitecture, config: HuggingFaceConfig) -> ModelArchitecture:
    """DeepSeek V4: one key per token for all heads, in the last tokens; older tokens are compressed 4 or 128 to one.

    Queries and outputs go through low ranks; the outputs in groups.
    """
    hidden, layers, dim = model.hidden, model.layers, model.head_dim
    rank, groups = config.get_integer("q_lora_rank"), config.get_integer("o_groups")
    out = groups * config.get_integer("o_lora_rank")
    streams = config.get_integer("hc_mult", default=4)
    near, far = _count_compressed_layers(config, layers)
    width, index = model.heads * dim, config.get_integer("index_head_dim")
    extra = (
        ExtraMatrix("q", rank - width, hidden, layers),
        ExtraMatrix("q", width, rank, layers),
        ExtraMatrix("k", -dim, hidden, layers),  # keys are the values
        ExtraMatrix("o", hidden, out - width, layers),
        ExtraMatrix("o", out, width // groups, layers),
        ExtraMatrix("latent", 4 * dim + 4 * index, hidden, near),
        ExtraMatrix("latent", config.get_integer("index_n_heads") * index, rank, near),
        ExtraMatrix("latent", 2 * dim, hidden, far),
        ExtraMatrix("small", 2 * (streams + 2) * streams, streams * hidden, layers),
    )
    window = config.get_integer("sliding_window", default=128)
    caches = (
        LayerCache(layers, dim, window),
        LayerCache(near, dim, stride=4, top=config.get_integer("index_topk", default=0)),
        LayerCache(near, index, stride=4, is_index=True),
        LayerCache(far, dim, stride=128),
    )
    return replace(
        model,
        extra_matrices=tuple(part for part in extra if part.layers),
        caches=tuple(cache for cache in caches if cache.layers),
        note=_add_note(model, INDEXER_NOTE),
    )


def _adapt_mimo(model: ModelArchitecture, config: HuggingFaceConfig) -> ModelArchitecture:
    """MiMo-V2: values narrower than keys, and other numbers of key-value heads in layers with a window."""
    kinds, pattern = config.get_first_value("layer_types"), config.get_first_value("hybrid_layer_pattern")
    if isinstance(kinds, list):
        near = kinds.count("sliding_attention")
    elif isinstance(pattern, list):
        near = sum(map(bool, pattern))
    else:
        raise InputError("is missing", where=config.where, key="layer_types")
    value = config.get_integer("v_head_dim", default=model.head_dim)
    near_heads = config.get_integer("swa_num_key_value_heads", default=model.kv_heads)
    narrower, more = value - model.head_dim, near_heads - model.kv_heads
    width = model.head_dim + value
    extra = (
        ExtraMatrix("o", model.hidden, model.heads * narrower, model.layers),
        ExtraMatrix("v", model.kv_heads * narrower, model.hidden, model.layers),
        ExtraMatrix("k", more * width, model.hidden, near),
    )
    caches = (
        LayerCache(near, near_heads * width, model.sliding_window),
        LayerCache(model.layers - near, model.kv_heads * width),
    )
    return replace(model, extra_matrices=extra, caches=tuple(cache for cache in caches if cache.layers))


def _count_compressed_layers(config: HuggingFaceConfig, layers: int) -> tuple[int, int]:
    kinds, ratios = config.get_first_value("layer_types"), config.get_first_value("compress_ratios")
    if isinstance(kinds, list):
        return kinds.count("compressed_sparse_attention"), kinds.count("heavily_compressed_attention")
    if isinstance(ratios, list):
        return ratios[:layers].count(4), ratios[:layers].count(128)
    raise InputError("is missing", where=config.where, key="layer_types")


FAMILIES: dict[str, Family] = {
    **dict.fromkeys(
        (
            "bert", "roberta", "camembert", "ernie", "xlm-roberta", "xlm-roberta-xl", "data2vec-text", "megatron-bert",
            "bert-generation", "roberta-prelayernorm", "big_bird", "roformer",
        ),
        _adapt_encoder,
    ),
    **dict.fromkeys(("opt", "biogpt"), _adapt_learned_positions),
    **dict.fromkeys(
        ("afmoe", "beam", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"), _adapt_attention_gate
    ),
    "lfm2": _adapt_lfm2,
    "lfm2_moe": _adapt_lfm2,
    "lfm3": _adapt_lfm2,
    "deepseek_v4": _adapt_deepseek_v4,
    "hy_v4": _adapt_latent_gate,
    "mimo_v2_flash": _adapt_mimo,
    "gemma4_unified_text": _adapt_gemma4,
    "gemma4_unified": _adapt_gemma4,
    "gemma3n": _adapt_gemma3n,
    "gemma3n_text": _adapt_gemma3n,
    "gemma4": _adapt_gemma4,
    "gemma4_text": _adapt_gemma4,
    "granitemoehybrid": _adapt_granite_hybrid,
    "nemotron_h": _adapt_nemotron_h,
    "longcat_flash": _adapt_longcat,
}  # fmt: skip
