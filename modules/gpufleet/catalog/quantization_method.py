"""The quantisation methods of a config.json's ``quantization_config``: bits per weight of each, scales included.

Names and keys: transformers 5.24.0, utils/quantization_config.py and quantizers/auto.py. ``modelopt``, ``mlx``,
``exl2`` and ``exl3`` are read by other engines: NVIDIA's Model Optimizer, Apple's mlx-lm, ExLlama.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpufleet.boundary import shorten_repr
from gpufleet.catalog.quantization_format import (
    BYTE_BITS,
    FP8,
    HALF_BITS,
    KEY,
    MAX_GROUP,
    MXFP4,
    MXFP8,
    NVFP4,
    FormatRule,
    MatrixFormat,
    ModelQuantization,
    QuantizationKeys,
    build_integer_format,
)
from gpufleet.errors import InputError

DOUBLE_QUANTIZED_NF4_BITS = 4 + 8 / 64 + 32 / (64 * 256)
FP8_BLOCK = (128, 128)
FLOAT4_FORMATS = {"nvfp4": NVFP4, "mxfp4": MXFP4}


def _skip(keys: QuantizationKeys, *names: str, has_globs: bool = False) -> tuple[FormatRule, ...]:
    patterns = keys.get_names(*(names or ("modules_to_not_convert",)))
    return (FormatRule(patterns, None, has_globs),) if patterns else ()


def _read_gptq(keys: QuantizationKeys) -> ModelQuantization:
    bits = keys.get_number("bits", "w_bit")
    chosen = build_integer_format(bits, keys.get_group("group_size", "q_group_size"), HALF_BITS + bits)
    rules = []
    for pattern, level in keys.list_levels(
        "dynamic"
    ):  # GPTQModel: "-:" leaves out, "+:" or nothing overrides
        text = "re:" + pattern.removeprefix("-:").removeprefix("+:")
        own = level.get_number("bits", default=bits)
        group = (
            level.get_group("group_size") if "group_size" in level.values else keys.get_group("group_size")
        )
        own_format = build_integer_format(own, group, HALF_BITS + own)
        rules.append(FormatRule((text,), None if pattern.startswith("-:") else own_format))
    return ModelQuantization(
        chosen,
        (*_skip(keys), *rules),
        has_quantized_output=keys.values.get("lm_head") is True,
    )


def _read_auto_round(keys: QuantizationKeys) -> ModelQuantization:
    rules = [
        FormatRule((pattern,), _auto_round_format(level, keys))
        for pattern, level in keys.list_levels("extra_config")
    ]
    return ModelQuantization(_auto_round_format(keys, keys), tuple(rules))


def _auto_round_format(keys: QuantizationKeys, parent: QuantizationKeys) -> MatrixFormat | None:
    bits = keys.get_number("bits", default=parent.get_number("bits", default=4), largest=32)
    if bits >= HALF_BITS:
        return None
    kind = keys.get_text("data_type", default=parent.get_text("data_type", default="int"))
    floats = {"mx_fp4": MXFP4, "nv_fp4": NVFP4, "mx_fp8": MXFP8, "fp8": FP8}
    if kind.startswith(("mx_fp", "nv_fp", "fp")):
        stem = kind.split("_rceil")[0].split("_with")[0].split("_e")[0].split("_sym")[0]
        name = stem if stem[-1:].isdigit() else f"{stem}{bits:.0f}"
        if name not in floats:
            raise keys.build_error("data_type", f"{shorten_repr(kind)} is not a known format")
        return floats[name]
    if not kind.startswith("int"):
        raise keys.build_error("data_type", f"{shorten_repr(kind)} is not a known format")
    group = keys.get_group("group_size") if "group_size" in keys.values else parent.get_group("group_size")
    return build_integer_format(bits, group, HALF_BITS + bits)


def _read_bitsandbytes(keys: QuantizationKeys) -> ModelQuantization:
    rules = _skip(keys, "llm_int8_skip_modules")
    if keys.values.get("load_in_4bit") or keys.values.get("_load_in_4bit"):
        kind = keys.get_text("bnb_4bit_quant_type", default="fp4")
        if kind not in {"nf4", "fp4"}:
            raise keys.build_error("bnb_4bit_quant_type", f"{shorten_repr(kind)} is neither nf4 nor fp4")
        is_double = keys.values.get("bnb_4bit_use_double_quant", False)
        nested = MatrixFormat("nf4", DOUBLE_QUANTIZED_NF4_BITS)
        return ModelQuantization(nested if is_double else MatrixFormat("nf4-single", 4.5), rules)
    return ModelQuantization(MatrixFormat("int8", 8.0), rules)


def _read_aqlm(keys: QuantizationKeys) -> ModelQuantization:
    width = keys.get_number("in_group_size", default=8, largest=1024)
    vector = width * keys.get_number("out_group_size", default=1, largest=1024)
    books = keys.get_number("num_codebooks", default=1, largest=64)
    index = keys.get_number("nbits_per_codebook", default=16, largest=24)
    bits = books * index / vector
    chosen = MatrixFormat(f"int{max(1, min(8, round(bits)))}", bits, books * 2**index * vector * HALF_BITS)
    return ModelQuantization(chosen, _skip(keys, "linear_weights_not_to_quantize"))


def _read_vptq(keys: QuantizationKeys) -> ModelQuantization:
    levels = keys.list_levels("config_for_layers")
    if not levels:
        levels = [("", keys.get_level("shared_layer_config"))]
    rules = [FormatRule((name,), _vptq_format(level)) for name, level in levels if name]
    return ModelQuantization(_vptq_format(levels[0][1]), (*_skip(keys), *rules))


def _vptq_format(keys: QuantizationKeys) -> MatrixFormat:
    def read_last(name: str) -> float:
        value = keys.values.get(name, [-1, -1])
        last = value[-1] if isinstance(value, list) and value else value
        if isinstance(last, bool) or not isinstance(last, int) or not -1 <= last <= MAX_GROUP:
            raise keys.build_error(name, f"{shorten_repr(value)} is not a list of integers")
        return float(last)

    length, main, rest = (
        read_last("vector_lens"),
        read_last("num_centroids"),
        read_last("num_res_centroids"),
    )
    if length < 1 or main < 1:
        raise keys.build_error("vector_lens", "has no length of a vector")
    bits = (math.log2(main) + (math.log2(rest) if rest > 0 else 0.0)) / length
    books = (main + max(rest, 0.0)) * length * HALF_BITS
    return MatrixFormat(f"int{max(1, min(8, math.ceil(bits)))}", bits, books)


def _read_quanto(keys: QuantizationKeys) -> ModelQuantization:
    kind = keys.get_text("weights", default="int8")
    formats = {
        "float8": FP8,
        "int8": MatrixFormat("int8", 8.0),
        "int4": build_integer_format(4, 128, 32),
        "int2": build_integer_format(2, 128, 32),
    }
    if kind not in formats:
        raise keys.build_error("weights", f"{shorten_repr(kind)} is not one of {', '.join(formats)}")
    return ModelQuantization(formats[kind], _skip(keys))


def _read_eetq(keys: QuantizationKeys) -> ModelQuantization:
    return ModelQuantization(MatrixFormat("int8", 8.0), _skip(keys))


def _read_hqq(keys: QuantizationKeys) -> ModelQuantization:
    inner = keys.get_level("quant_config") if "quant_config" in keys.values else keys
    is_per_module = not any("weight_quant_params" in level.values for level in (inner,)) and bool(
        inner.values
    )
    rules = _skip(keys, "skip_modules")
    if "weight_quant_params" in inner.values:
        return ModelQuantization(_hqq_format(inner.get_level("weight_quant_params")), rules)
    if is_per_module and "nbits" not in inner.values:
        entries = [
            FormatRule((name,), _hqq_format(inner.get_level(name).get_level("weight_quant_params")))
            for name in inner.values
        ]
        return ModelQuantization(None, (*rules, *entries))
    return ModelQuantization(_hqq_format(inner), rules)


def _hqq_format(keys: QuantizationKeys) -> MatrixFormat:
    return build_integer_format(
        keys.get_number("nbits", default=4), keys.get_group("group_size", default=64), 32
    )


def _read_compressed_tensors(keys: QuantizationKeys) -> ModelQuantization:
    groups = keys.list_levels("config_groups")
    if not groups:
        raise keys.build_error("config_groups", "has no group")
    sparsity = keys.get_level("sparsity_config").get_text("format", default="dense")
    if sparsity not in {"dense", "sparse-24-bitmask"}:
        raise keys.build_error("sparsity_config.format", f"{shorten_repr(sparsity)} is not a known format")
    is_sparse = sparsity != "dense" or keys.get_text("format", default="dense") == "marlin-24"
    default, rules = _group_rules(keys, is_sparse=is_sparse, has_mask=sparsity != "dense")
    return ModelQuantization(default, (*_skip(keys, "ignore"), *rules), has_quantized_output=True)


def _group_rules(
    keys: QuantizationKeys, *, is_sparse: bool = False, has_mask: bool = False
) -> tuple[MatrixFormat | None, tuple[FormatRule, ...]]:
    """Return the format of all linear modules, and the rules of groups that name their modules."""
    rules: list[FormatRule] = []
    default: MatrixFormat | None = None
    for _, group in keys.list_levels("config_groups"):
        parent = group if "format" in group.values else keys
        chosen = (
            _compressed_format(group.get_level("weights"), parent) if group.values.get("weights") else None
        )
        if chosen and is_sparse:  # half of the weights, and where they are
            chosen = MatrixFormat(chosen.precision, chosen.bits / 2 + (1.0 if has_mask else 2 * 0.5))
        targets = group.get_names("targets") or ("Linear",)
        classes = {target for target in targets if target[:1].isupper()}
        if classes - {"Linear"}:
            text = shorten_repr(min(classes - {"Linear"}))
            raise group.build_error("targets", f"{text} is not a known class of modules")
        if classes:
            default = chosen
        names = tuple(target for target in targets if target not in classes)
        if names:
            rules.append(FormatRule(names, chosen))
    return default, tuple(rules)


def _compressed_format(weights: QuantizationKeys, parent: QuantizationKeys) -> MatrixFormat | None:
    bits = weights.get_number("num_bits", default=8)
    if bits >= HALF_BITS:
        return None
    kind, strategy = weights.get_text("type", default="int"), weights.get_text("strategy", default="")
    group = weights.get_group("group_size") if weights.values.get("group_size") else math.inf
    if kind == "float":
        if bits == BYTE_BITS:
            return MXFP8 if group == 32 else FP8  # noqa: PLR2004 - OCP's block
        if bits == 4:  # noqa: PLR2004 - bits
            is_mx = "mxfp4" in parent.get_text("format", default="") or group == 32  # noqa: PLR2004
            return MXFP4 if is_mx else NVFP4
        raise weights.build_error("num_bits", f"{bits:g} is not a width of float weights")
    if kind != "int":
        raise weights.build_error("type", f"{shorten_repr(kind)} is neither int nor float")
    if strategy in {"tensor", "channel", "block"}:
        group = math.inf
    zeros = 0.0 if weights.values.get("symmetric", True) else bits
    return build_integer_format(bits, group, HALF_BITS + zeros)


def _read_modelopt(keys: QuantizationKeys) -> ModelQuantization:
    quantization = keys.get_level("quantization") if "quantization" in keys.values else keys
    rules = _skip(quantization, "ignore", "exclude_modules", has_globs=True)
    algorithm = quantization.get_text("quant_algo")
    formats = _modelopt_formats(quantization.get_group("group_size"))
    if algorithm == "mixed_precision" and "quantized_layers" in quantization.values:
        entries = []
        for name, level in quantization.list_levels("quantized_layers"):
            own = level.get_text("quant_algo")
            if own not in formats:
                raise level.build_error("quant_algo", f"{shorten_repr(own)} is not a known algorithm")
            entries.append(FormatRule((name,), formats[own]))
        return ModelQuantization(None, (*rules, *_merge_rules(entries)), has_quantized_output=True)
    if algorithm == "mixed_precision" or (not algorithm and "config_groups" in quantization.values):
        return replace(_read_compressed_tensors(quantization), rules=(*rules, *_group_rules(quantization)[1]))
    if algorithm not in formats:
        raise quantization.build_error("quant_algo", f"{shorten_repr(algorithm)} is not a known algorithm")
    return ModelQuantization(formats[algorithm], rules, has_quantized_output=True)


def _merge_rules(rules: list[FormatRule]) -> list[FormatRule]:
    """Return one rule for each format: lists may name every module of every layer."""
    names: dict[MatrixFormat | None, list[str]] = {}
    for rule in rules:
        names.setdefault(rule.format, []).extend(rule.patterns)
    return [FormatRule(tuple(patterns), chosen) for chosen, patterns in names.items()]


def _modelopt_formats(group: float) -> dict[str, MatrixFormat]:
    return {
        "fp8": FP8,
        "fp8_pb_wo": FP8,
        "fp8_pb_real": FP8,
        "fp8_per_channel_per_token": FP8,
        "mxfp8": MXFP8,
        "nvfp4": NVFP4,
        "nvfp4_awq": NVFP4,
        "w4a16_nvfp4": NVFP4,
        "w4a8_nvfp4_fp8": NVFP4,
        "mxfp4": MXFP4,
        "w4a8_mxfp4_fp8": MXFP4,
        "w4a16_awq": build_integer_format(4, group, HALF_BITS),
        "w4a8_awq": build_integer_format(4, group, HALF_BITS),
        "int8_sq": MatrixFormat("int8", 8.0),
        "w8a16": MatrixFormat("int8", 8.0),
        "w8a8_sq_per_channel": MatrixFormat("int8", 8.0),
    }


def _read_fbgemm(keys: QuantizationKeys) -> ModelQuantization:
    return ModelQuantization(FP8, _skip(keys))


def _read_higgs(keys: QuantizationKeys) -> ModelQuantization:
    bits = keys.get_number("bits", default=4)
    return ModelQuantization(
        build_integer_format(bits, keys.get_group("group_size", default=256), HALF_BITS), _skip(keys)
    )


TORCHAO_FORMATS: dict[str, tuple[float, float]] = {  # bits, and bits of scale and zero per group
    "int4weightonlyconfig": (4, 32),
    "int8weightonlyconfig": (8, 0),
    "int8dynamicactivationint8weightconfig": (8, 0),
    "int8dynamicactivationint4weightconfig": (4, 32),
    "int4weightonly": (4, 32),
    "int4_weight_only": (4, 32),
    "int8_weight_only": (8, 0),
    "int8_dynamic_activation_int8_weight": (8, 0),
    "int8_dynamic_activation_int4_weight": (4, 32),
    "float8dynamicactivationint4weightconfig": (4, 32),
}


def _read_torchao(keys: QuantizationKeys) -> ModelQuantization:
    value = keys.values.get("quant_type")
    default: MatrixFormat | None
    rules: tuple[FormatRule, ...]
    if isinstance(value, str):  # before 5.0
        level = keys.get_level("quant_type_kwargs")
        default, rules = _torchao_format(value.lower(), level, keys), ()
    else:
        inner = keys.get_level("quant_type").get_level("default")
        default, rules = _torchao_rules(inner, keys)
    has_embeddings = keys.values.get("include_input_output_embeddings") is True
    return ModelQuantization(
        default,
        (*_skip(keys), *rules),
        has_quantized_embedding=has_embeddings,
        has_quantized_output=has_embeddings,
    )


def _torchao_rules(
    inner: QuantizationKeys, keys: QuantizationKeys
) -> tuple[MatrixFormat | None, tuple[FormatRule, ...]]:
    kind, data = inner.get_text("_type"), inner.get_level("_data")
    if kind not in {"moduleFqnToConfig".lower(), "fqntoconfig"}:
        return _torchao_format(kind, data, keys), ()
    table = "module_fqn_to_config" if "module_fqn_to_config" in data.values else "fqn_to_config"
    default, rules = None, []
    for name, level in data.list_levels(table):
        own_kind = level.get_text("_type") if level.values else ""
        chosen = _torchao_format(own_kind, level.get_level("_data"), keys) if own_kind else None
        if name == "_default":
            default = chosen
        else:
            rules.append(FormatRule((name,), chosen))
    return default, tuple(rules)


def _torchao_format(kind: str, data: QuantizationKeys, keys: QuantizationKeys) -> MatrixFormat:
    if kind in TORCHAO_FORMATS:
        bits, scales = TORCHAO_FORMATS[kind]
        default_group = 32 if "dynamic" in kind else 128
        group = data.get_group("group_size", default=default_group) if scales else math.inf
        return build_integer_format(bits, group, scales)
    if kind in {"intxweightonlyconfig", "int8dynamicactivationintxweightconfig"}:
        text = str(data.get_level("weight_dtype").values.get("_data", "int8")).removeprefix("torch.")
        if text not in {f"int{bits}" for bits in range(1, 9)}:
            raise data.build_error("weight_dtype", f"{shorten_repr(text)} is not int1 to int8")
        group = data.get_level("granularity").get_level("_data").get_group("group_size", default=32)
        return build_integer_format(float(text[3:]), group, 32)
    if kind.startswith("float8"):
        return FP8
    if kind.startswith("nvfp4"):
        return NVFP4
    if kind.startswith(("mxfp4", "mxdynamic")):
        return MXFP4 if "float4" in str(data.values.get("weight_dtype", "float4")) else MXFP8
    raise keys.build_error("quant_type", f"{shorten_repr(kind)} is not a known type")


def _read_bitnet(keys: QuantizationKeys) -> ModelQuantization:
    if keys.get_text("quantization_mode", default="offline") == "online":
        return ModelQuantization(None)  # the file has 16-bit weights, which are rounded when they are used
    return ModelQuantization(MatrixFormat("int2", 2.0), _skip(keys))


def _read_spqr(keys: QuantizationKeys) -> ModelQuantization:
    bits = keys.get_number("bits", default=3)
    widths = {"dense_weights": 64, "row_offsets": 32, "col_vals": 32, "in_perm": 16}
    total = 0.0
    shapes = keys.get_level("shapes")
    for name in shapes.values:
        tensor = name.removesuffix(".shape").rsplit(".", 1)[-1]
        total += shapes.get_number(name, largest=1e12) * widths.get(tensor, 0)
    if not total:
        raise keys.build_error("shapes", "has no sizes of tensors: the outliers are not known")
    return ModelQuantization(MatrixFormat(f"int{bits:.0f}", bits), _skip(keys), total_bits=total)


def _read_fp8(keys: QuantizationKeys) -> ModelQuantization:
    block = keys.values.get("weight_block_size", list(FP8_BLOCK))
    scale = 8 if keys.get_text("scale_fmt", default="float") == "ue8m0" else 32
    chosen = FP8
    if block is not None:
        sizes = QuantizationKeys(keys.where, dict(zip("nk", block, strict=False)), f"{KEY}.weight_block_size")
        chosen = MatrixFormat("fp8", 8 + scale / (sizes.get_group("n") * sizes.get_group("k")))
    rules = _skip(keys, "modules_to_not_convert", "ignored_layers")
    expert = keys.get_text("expert_dtype", default="fp8")
    if expert not in {"fp8", "fp4"}:
        raise keys.build_error("expert_dtype", f"{shorten_repr(expert)} is neither fp8 nor fp4")
    own = MXFP4 if expert == "fp4" else None
    if algorithm := keys.get_text(
        "moe_quant_algo"
    ):  # NVIDIA's copies: the owner's FP8 with experts of their own
        own = _modelopt_formats(keys.get_group("group_size")).get(algorithm)
        if own is None:
            raise keys.build_error("moe_quant_algo", f"{shorten_repr(algorithm)} is not a known algorithm")
    experts = (FormatRule(("mlp.experts",), own),) if own else ()
    return ModelQuantization(chosen, (*rules, *experts))


def _read_quark(keys: QuantizationKeys) -> ModelQuantization:
    rules = list(_skip(keys, "exclude", has_globs=True))
    for name, level in keys.list_levels("layer_quant_config"):
        rules.append(FormatRule((name,), _quark_format(level), has_globs=True))
    return ModelQuantization(
        _quark_format(keys.get_level("global_quant_config")), tuple(rules), has_quantized_output=True
    )


def _quark_format(keys: QuantizationKeys) -> MatrixFormat | None:
    weight = keys.values.get("weight")
    if weight is None:
        return None
    if isinstance(weight, list):  # two stages of scales: the first has the weights
        weight = weight[0] if weight else {}
    level = QuantizationKeys(keys.where, {"weight": weight}, keys.key).get_level("weight")
    kind = level.get_text("dtype")
    group = level.get_group("group_size") if level.values.get("group_size") else math.inf
    floats = {"fp8_e4m3": FP8, "fp8_e5m2": FP8, "mx": MXFP4}
    if kind in {"int4", "uint4", "int8", "uint8", "int3", "int2"}:
        bits = float(kind[-1])
        return build_integer_format(bits, group, HALF_BITS + (bits if kind[0] == "u" else 0))
    if kind in {"fp4", "fp6_e2m3", "fp6_e3m2"}:
        bits = float(kind[2])
        width = group if math.isfinite(group) else 32
        name = "mxfp4" if bits == 4 else "fp6"  # noqa: PLR2004 - bits
        return MatrixFormat(name, bits + 8 / width)
    if kind in {"bfloat16", "float16"}:
        return None
    if kind not in floats:
        raise level.build_error("dtype", f"{shorten_repr(kind)} is not a known type")
    return floats[kind]


def _read_float4(*names: str, default: str) -> Callable[[QuantizationKeys], ModelQuantization]:
    def read(keys: QuantizationKeys) -> ModelQuantization:
        kind = keys.get_text(*names, default=default)
        if kind not in FLOAT4_FORMATS:
            raise keys.build_error(names[0], f"{shorten_repr(kind)} is neither nvfp4 nor mxfp4")
        if keys.values.get("store_master_weights") or keys.values.get("keep_master_weights"):
            return ModelQuantization(None, _skip(keys))  # the file has 16-bit weights
        return ModelQuantization(FLOAT4_FORMATS[kind], _skip(keys))

    return read


def _read_fixed(chosen: MatrixFormat) -> Callable[[QuantizationKeys], ModelQuantization]:
    return lambda keys: ModelQuantization(chosen, _skip(keys))


def _read_mxfp4(keys: QuantizationKeys) -> ModelQuantization:
    """Return MXFP4 of the experts only, as engines have it; a dense model has all its matrices in it."""
    return ModelQuantization(MXFP4, _skip(keys), only_experts=True)


def _read_affine(keys: QuantizationKeys) -> ModelQuantization:
    bits = keys.get_number("bits", "nbits", default=4)
    return ModelQuantization(
        build_integer_format(bits, keys.get_group("group_size", default=64), 32), _skip(keys)
    )


def _read_mlx(keys: QuantizationKeys) -> ModelQuantization:
    mode = keys.get_text("mode", default="affine")
    bits = keys.get_number("bits")
    affine = build_integer_format(bits, keys.get_group("group_size", default=64), 32)
    formats = {"affine": affine, "mxfp4": MXFP4, "nvfp4": NVFP4, "mxfp8": MXFP8}
    if mode not in formats:
        raise keys.build_error("mode", f"{shorten_repr(mode)} is not one of {', '.join(formats)}")
    rules = []
    for name, value in keys.values.items():  # a module's name has its own settings, or false
        if isinstance(value, dict):
            level = keys.get_level(name)
            group = level.get_group("group_size", default=64)
            rules.append(FormatRule((name,), build_integer_format(level.get_number("bits"), group, 32)))
        elif value is False:
            rules.append(FormatRule((name,), None))
    return ModelQuantization(
        formats[mode], tuple(rules), has_quantized_embedding=True, has_quantized_output=True
    )


def _read_exl(keys: QuantizationKeys) -> ModelQuantization:
    bits = keys.get_number("bits")
    head = keys.get_number("lm_head_bits", "head_bits", default=6)
    chosen = MatrixFormat(f"int{max(1, min(8, math.ceil(bits)))}", bits)
    rule = FormatRule(("lm_head",), MatrixFormat(f"int{head:.0f}", head))
    return ModelQuantization(chosen, (rule,), has_quantized_output=True)


def _read_gemma(keys: QuantizationKeys) -> ModelQuantization:
    bits = keys.get_number("num_bits", default=4)
    rules = [
        FormatRule(
            (f"re:.*{pattern}",),
            build_integer_format(level.get_number("num_bits", default=bits), math.inf, 0),
        )
        for pattern, level in keys.list_levels("module_quant_configs")
    ]
    has_embeddings = keys.values.get("quantize_embeddings") is True
    return ModelQuantization(
        build_integer_format(bits, math.inf, 0),
        (*_skip(keys), *rules),
        has_quantized_embedding=has_embeddings,
        has_quantized_output=True,
    )


def _refuse_gguf(keys: QuantizationKeys) -> ModelQuantization:
    raise InputError(
        "does not state the sizes of a GGUF file",
        where=keys.where,
        key=f"{KEY}.quant_method",
        remedy="give the GGUF file itself",
    )


METHODS: dict[str, Callable[[QuantizationKeys], ModelQuantization]] = {
    "aqlm": _read_aqlm,
    "auto-round": _read_auto_round,
    "awq": _read_gptq,
    "bitnet": _read_bitnet,
    "bitsandbytes": _read_bitsandbytes,
    "bitsandbytes_4bit": _read_bitsandbytes,
    "bitsandbytes_8bit": _read_bitsandbytes,
    "compressed-tensors": _read_compressed_tensors,
    "eetq": _read_eetq,
    "exl2": _read_exl,
    "exl3": _read_exl,
    "fbgemm_fp8": _read_fbgemm,
    "fouroversix": _read_float4("weight_dtype", "dtype", default="nvfp4"),
    "fp8": _read_fp8,
    "fp_quant": _read_float4("forward_dtype", default="nvfp4"),
    "gemma": _read_gemma,
    "gguf": _refuse_gguf,
    "gptq": _read_gptq,
    "higgs": _read_higgs,
    "hqq": _read_hqq,
    "metal": _read_affine,
    "mlx": _read_mlx,
    "modelopt": _read_modelopt,
    "modelopt_fp4": _read_modelopt,
    "modelopt_mixed": _read_modelopt,
    "mxfp4": _read_mxfp4,
    "mxfp8": _read_fixed(MXFP8),
    "nvfp4": _read_fixed(NVFP4),
    "quanto": _read_quanto,
    "quark": _read_quark,
    "sinq": _read_affine,
    "spqr": _read_spqr,
    "torchao": _read_torchao,
    "vptq": _read_vptq,
}
METHOD_ALIASES = {
    "compressed_tensors": "compressed-tensors",
    "auto_round": "auto-round",
    "intel/auto-round": "auto-round",
}


def read_quantization_method(values: dict[str, Any], where: str) -> tuple[str, ModelQuantization]:
    """Return the method and what it quantises; raise InputError for an unknown method or value."""
    keys = QuantizationKeys(where, values)
    method = keys.get_text("quant_method")
    if not method:
        if values.get("load_in_4bit") or values.get("load_in_8bit"):
            method = "bitsandbytes"
        elif "quant_algo" in values or "quantization" in values:
            method = "modelopt"
        elif "bits" in values:  # mlx-lm writes no method
            method = "mlx"
    method = METHOD_ALIASES.get(method, method)
    if method not in METHODS:
        problem = f"{shorten_repr(method)} is not a known method" if method else "is missing"
        raise InputError(
            problem,
            where=where,
            key=f"{KEY}.quant_method",
            remedy=f"give --precision for a copy of the file without {KEY}; known: {', '.join(METHODS)}",
        )
    return method, METHODS[method](keys)
