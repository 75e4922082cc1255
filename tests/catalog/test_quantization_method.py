"""Formats of published models: each ``quant_method`` of transformers 5.24 in bits per weight, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet import catalog, sizing
from gpufleet.catalog.quantization_method import METHODS
from gpufleet.errors import InputError
from tests.catalog.test_configfile import DEEPSEEK, LLAMA, write_config

# transformers 5.24.0, utils/quantization_config.py, QuantizationMethod
METHODS_OF_TRANSFORMERS = {
    "aqlm", "auto-round", "awq", "bitnet", "bitsandbytes", "compressed-tensors", "eetq", "fbgemm_fp8", "fouroversix",
    "fp8", "fp_quant", "gemma", "gguf", "gptq", "higgs", "hqq", "metal", "mxfp4", "mxfp8", "nvfp4", "quanto", "quark",
    "sinq", "spqr", "torchao", "vptq",
}  # fmt: skip
INT4_GROUP = {"num_bits": 4, "group_size": 32, "strategy": "group", "symmetric": True, "type": "int"}
MIXTRAL = LLAMA | {
    "model_type": "mixtral",
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
TABLE = Path(__file__).parents[1] / "cases" / "catalog" / "published_quantizations.json"
PUBLISHED = json.loads(TABLE.read_text())


def read(tmp_path, quantization, base=LLAMA):
    return catalog.get_model(str(write_config(tmp_path, base | {"quantization_config": quantization})))


@pytest.mark.parametrize(
    ("quantization", "precision", "bits"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4-g128", 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 3, "group_size": -1}, "int3", 3),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, "int4-g64", 4 + 20 / 64),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", 8),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4-single", 4.5),
        ({"quant_method": "vptq", "config_for_layers": {
            "model.layers.0.self_attn.q_proj": {"vector_lens": [-1, 8], "num_centroids": [-1, 65536],
                                                "num_res_centroids": [-1, 256]}}},
         "int3", 3 + (65536 + 256) * 8 * 16 / 4096**2),
        ({"quant_method": "aqlm", "in_group_size": 8, "num_codebooks": 1, "nbits_per_codebook": 16},
         "int2", 2 + 2**16 * 8 * 16 / 4096**2),
        ({"quant_method": "quanto", "weights": "float8"}, "fp8", 8),
        ({"quant_method": "quanto", "weights": "int4"}, "int4-g128", 4.25),
        ({"quant_method": "eetq", "weights": "int8"}, "int8", 8),
        ({"quant_method": "higgs", "bits": 4, "group_size": 256}, "int4-g256", 4 + 16 / 256),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}},
         "int4-g64", 4.5),
        ({"quant_method": "compressed-tensors", "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": INT4_GROUP}}, "ignore": ["lm_head"]},
         "int4-g32", 4.5),
        ({"quant_method": "compressed-tensors", "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}},
         "fp8", 8),
        ({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}}},
         "nvfp4", 4.5),
        ({"quant_method": "compressed-tensors", "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}},
          "sparsity_config": {"format": "sparse-24-bitmask"}}, "fp8", 5),
        ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["lm_head"]}, "fp8", 8),
        ({"quant_method": "torchao", "quant_type": {
            "default": {"_type": "Int4WeightOnlyConfig", "_version": 1, "_data": {"group_size": 128}}}},
         "int4-g128", 4.25),
        ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8WeightOnlyConfig", "_data": {}}}},
         "fp8", 8),
        ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, "int8", 8),
        ({"quant_method": "bitnet"}, "int2", 2),
        ({"quant_method": "spqr", "bits": 3, "shapes": {
            "model.layers.0.self_attn.q_proj.dense_weights.shape": 4096**2 * 3 // 64}}, "int3", None),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 8 + 32 / 128**2),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}, "exclude": ["lm_head"]},
         "fp8", 8),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}},
         "mxfp4", 4.25),
        ({"quant_method": "fp_quant", "forward_dtype": "mxfp4"}, "mxfp4", 4.25),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}, "int4-g128", 4 + 20 / 128),
        ({"quant_method": "auto-round", "bits": 4, "data_type": "mx_fp", "group_size": 32}, "mxfp4", 4.25),
        ({"quant_method": "mxfp4"}, "mxfp4", 4.25),
        ({"quant_method": "nvfp4"}, "nvfp4", 4.5),
        ({"quant_method": "mxfp8"}, "mxfp8", 8.25),
        ({"quant_method": "metal", "bits": 4, "group_size": 64}, "int4-g64", 4.5),
        ({"quant_method": "fouroversix"}, "nvfp4", 4.5),
        ({"quant_method": "sinq", "nbits": 4, "group_size": 64}, "int4-g64", 4.5),
        ({"quant_method": "gemma", "num_bits": 4}, "int4", 4),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, "nvfp4", 4.5),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", 8),
        ({"bits": 4, "group_size": 64}, "int4-g64", 4.5),  # mlx-lm writes no method
        ({"quant_method": "exl2", "bits": 4.25, "lm_head_bits": 6}, "int5", 4.25),
    ],
    ids=lambda value: value.get("quant_method", "mlx") if isinstance(value, dict) else "",
)  # fmt: skip
def test_each_method_gives_bits_per_weight_with_scales(tmp_path, quantization, precision, bits):
    model = read(tmp_path, quantization)
    assert model.quantization.precision == sizing.stored_precision(model) == precision
    if bits is not None:
        assert model.quantization.get_bits("q") == pytest.approx(bits)


def test_every_method_of_transformers_is_read():
    assert set(METHODS) >= METHODS_OF_TRANSFORMERS
    assert len(METHODS_OF_TRANSFORMERS) == 26


@pytest.mark.parametrize(
    ("quantization", "message"),
    [
        (
            {"quant_method": "of-tomorrow"},
            r"quantization_config.quant_method: 'of-tomorrow' is not a known method",
        ),
        ({"weights": "x"}, r"quantization_config.quant_method: is missing"),
        ({"quant_method": "gguf"}, r"quantization_config.quant_method: .*; give the GGUF file itself"),
        ({"quant_method": "gptq"}, r"quantization_config.bits: None is not a number above 0 up to 16"),
        (
            {"quant_method": "quanto", "weights": "int5"},
            r"quantization_config.weights: 'int5' is not one of float8",
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "W3"},
            r"quantization_config.quant_algo: 'w3' is not a known",
        ),
        (
            {"quant_method": "torchao", "quant_type": {"default": {"_type": "Later"}}},
            r"quant_type: 'later' is not",
        ),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, r"config_groups: has no group"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"targets": ["Conv3d"], "weights": INT4_GROUP}},
            },
            r"config_groups.g.targets: 'Conv3d' is not a known class",
        ),
        ({"quant_method": "spqr", "bits": 3}, r"quantization_config.shapes: has no sizes"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["(a+)+b" * 5]}, r"repeats too much"),
        (
            {"quant_method": "fp8", "modules_to_not_convert": [3]},
            r"modules_to_not_convert: \[3\] is not a list of",
        ),
    ],
)
def test_what_is_not_known_is_refused_with_its_key(tmp_path, quantization, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, quantization)


def test_modules_that_are_left_out_stay_in_sixteen_bits(tmp_path):
    """By hand: q of all layers, layers 0 and 1 of down; 30 of 32 layers of down in 8 bits."""
    left_out = ["self_attn.q_proj", "model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj", "lm_head"]
    stored = read(tmp_path, {"quant_method": "fbgemm_fp8", "modules_to_not_convert": left_out}).quantization
    assert (stored.get_bits("q"), stored.get_bits("k"), stored.get_bits("output")) == (16, 8, 16)
    assert stored.get_bits("dense down") == pytest.approx((2 * 16 + 30 * 8) / 32)


def test_wildcard_of_model_optimizer_does_not_select_layers_with_a_longer_number(tmp_path):
    quantization = {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "exclude_modules": ["model.layers.1.*"],
    }
    stored = read(tmp_path, quantization).quantization
    assert stored.get_bits("q") == pytest.approx((16 + 31 * 4.5) / 32)


def test_experts_of_deepseek_v4_have_four_bits(tmp_path):
    base = DEEPSEEK | {"expert_dtype": "fp4"}
    stored = read(tmp_path, {"quant_method": "fp8", "scale_fmt": "ue8m0"}, base).quantization
    assert stored.get_bits("routed up") == pytest.approx(4.25)
    assert stored.get_bits("shared up") == stored.get_bits("q") == pytest.approx(8 + 8 / 128**2)


def test_mxfp4_of_a_mixture_holds_the_experts_only(tmp_path):
    stored = read(tmp_path, {"quant_method": "mxfp4"}, MIXTRAL).quantization
    assert (stored.get_bits("routed up"), stored.get_bits("q")) == (4.25, 16)


def test_format_beside_the_config_is_read(tmp_path):
    """NVIDIA's checkpoints state their formats in hf_quant_config.json."""
    path = write_config(tmp_path, LLAMA)
    beside = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]},
    }
    path.with_name("hf_quant_config.json").write_text(json.dumps(beside))
    assert catalog.get_model(str(path)).quantization.precision == "fp8"


@pytest.mark.parametrize("case", PUBLISHED["models"], ids=lambda case: case["name"])
def test_published_quantisations_have_their_size(tmp_path, case):
    """Quantisations as aiconfigurator-core 0.12.0 ships them; by hand: 4.5 bits for experts in NVFP4, 16 for others."""
    model = catalog.get_model(str(write_config(tmp_path, case["config"])))
    assert model.quantization.precision == case["precision"]
    assert sizing.weight_bytes(model, case["precision"]) / 1e9 == pytest.approx(case["gigabytes"], rel=0.01)


@pytest.mark.parametrize(
    ("name", "precision", "gigabytes"),
    [
        ("gpt-oss-120b", "mxfp4", 65.2),  # huggingface.co/openai/gpt-oss-120b: 65.2 GB of safetensors
        ("gpt-oss-20b", "mxfp4", 13.8),  # 13.8 GB
        ("DeepSeek-R1", "fp8", 673),  # 688.6 GB with its 14 B parameters of multi-token prediction
        ("DeepSeek-V3", "fp8", 673),
        ("Kimi-K2", "int4-g32", 594),  # Kimi-K2-Thinking: 594 GB
    ],
)
def test_models_published_quantised_default_to_their_format(name, precision, gigabytes):
    model = catalog.get_model(name)
    assert sizing.stored_precision(model) == precision
    assert sizing.weight_bytes(model, precision) / 1e9 == pytest.approx(gigabytes, rel=0.01)
    assert "_config.json" in model.quantization.source


@pytest.mark.parametrize("name", ["DeepSeek-R1-Distill-Llama-8B", "Llama-3.1-8B", "DeepSeek-V2"])
def test_models_published_in_sixteen_bits_have_no_other_default(name):
    assert catalog.get_model(name).quantization is None


def test_impossible_number_of_layers_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"has 900,000,000,000 layers, more than any model"):
        read(tmp_path, {"quant_method": "fp8"}, LLAMA | {"num_hidden_layers": 900_000_000_000})


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("model.layers.1.self_attn*", {1}),
        ("model.layers.1*", {1, *range(10, 20)}),
        ("model.layers.1.*", {1}),
        ("*self_attn*", set(range(32))),
        (r"re:.*layers\.(1|2)\..*q_proj", {1, 2}),
    ],
)
def test_patterns_select_layers(tmp_path, pattern, kept):
    quantization = {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": [pattern]}
    bits = read(tmp_path, quantization).quantization.get_bits("q")
    assert bits == pytest.approx((16 * len(kept) + 8 * (32 - len(kept))) / 32)
