from __future__ import annotations

import json

import pytest

from gpufleet import catalog
from gpufleet.catalog.huggingface_config import parse_huggingface_config
from gpufleet.errors import InputError

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
QWEN35 = {  # Qwen3.5-27B, as aiconfigurator-core 0.12.0 ships it
    "model_type": "qwen3_5",
    "text_config": {
        "model_type": "qwen3_5",
        "hidden_size": 5120,
        "num_hidden_layers": 64,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "intermediate_size": 17408,
        "vocab_size": 248320,
        "max_position_embeddings": 262144,
        "full_attention_interval": 4,
        "attn_output_gate": True,
        "linear_num_key_heads": 16,
        "linear_key_head_dim": 128,
        "linear_num_value_heads": 48,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    },
}


def write_config(folder, document, name="config.json"):
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("document", "same_as"), [(LLAMA, "Llama-3-8B"), (DEEPSEEK, "DeepSeek-V3")], ids=["llama", "deepseek"]
)
def test_config_file_gives_the_same_model_as_the_catalogue(tmp_path, document, same_as):
    read, known = catalog.get_model(str(write_config(tmp_path, document))), catalog.get_model(same_as)
    assert read.parameters == known.parameters
    assert read.active_parameters == known.active_parameters
    assert (read.latent, read.experts) == (known.latent, known.experts)


@pytest.mark.parametrize(("name", "size"), [("float32", 4), ("bfloat16", 2), (None, 2)])
def test_recurrent_state_has_the_type_that_the_config_states(tmp_path, name, size):
    """Qwen3.5's config.json states float32, as the catalogue counts it."""
    text = QWEN35["text_config"] | {"mamba_ssm_dtype": name}
    read = catalog.get_model(str(write_config(tmp_path, QWEN35 | {"text_config": text})))
    assert read.linear.state_bytes == size
    if name == "float32":
        assert read.linear == catalog.get_model("Qwen3.5-27B").linear


@pytest.mark.parametrize("name", ["float128", 7, ["float32"]])
def test_unknown_type_of_a_recurrent_state_is_refused(tmp_path, name):
    text = QWEN35["text_config"] | {"mamba_ssm_dtype": name}
    with pytest.raises(
        InputError, match=r"mamba_ssm_dtype: .* is not a type of a state; expected one of float32"
    ):
        catalog.get_model(str(write_config(tmp_path, QWEN35 | {"text_config": text})))


def test_folder_with_a_config_is_read_and_names_the_model(tmp_path):
    folder = tmp_path / "my-model"
    folder.mkdir()
    write_config(folder, LLAMA)
    assert catalog.get_model(str(folder)).name == "my-model"


def test_unknown_model_family_with_common_keys_is_read(tmp_path):
    read = catalog.get_model(str(write_config(tmp_path, LLAMA | {"model_type": "of-tomorrow"})))
    assert (read.family, read.parameters) == ("of-tomorrow", catalog.get_model("Llama-3-8B").parameters)


@pytest.mark.parametrize(
    "key",
    [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "vocab_size",
    ],
)
def test_missing_key_is_named_in_one_line(tmp_path, key):
    path = write_config(tmp_path, {name: value for name, value in LLAMA.items() if name != key})
    with pytest.raises(InputError) as excinfo:
        catalog.get_model(str(path))
    assert str(excinfo.value) == f"{path}: {key}: is missing; the model's size is computed from it"


def test_missing_context_length_is_unknown(tmp_path):
    keys = {name: value for name, value in LLAMA.items() if name != "max_position_embeddings"}
    assert catalog.get_model(str(write_config(tmp_path, keys))).max_context == 0


@pytest.mark.parametrize(
    "more",
    [
        {"layer_types": 3},
        {"mlp_only_layers": 3},
        {"attn_config": {"kv_n_heads": "two"}},
        {"quantization_config": {"quant_method": "fp8", "weight_block_size": 128}},
    ],
)
def test_setting_of_unexpected_type_is_refused_in_one_line(tmp_path, more):
    with pytest.raises(InputError, match="of an unexpected type"):
        catalog.get_model(
            str(write_config(tmp_path, LLAMA | {"num_experts": 8, "num_experts_per_tok": 2} | more))
        )


def test_wrong_value_is_reported_under_the_key_in_the_file(tmp_path):
    keys = {name: value for name, value in LLAMA.items() if name != "num_hidden_layers"}
    with pytest.raises(InputError, match=r"n_layer: -4096 is not an integer"):
        catalog.get_model(str(write_config(tmp_path, keys | {"n_layer": -4096})))


@pytest.mark.parametrize("value", ["many", -1, 1.5, True, [32], float("inf"), float("nan")])
def test_invalid_number_of_layers_is_refused(tmp_path, value):
    path = write_config(tmp_path, LLAMA | {"num_hidden_layers": value})
    with pytest.raises(
        InputError, match=r"num_hidden_layers: .* is not an integer|is not a number that JSON can represent"
    ):
        catalog.get_model(str(path))


@pytest.mark.parametrize("key", ["num_attention_heads", "hidden_size"])
def test_zero_divisor_is_refused(tmp_path, key):
    with pytest.raises(InputError, match="must be above zero"):
        catalog.get_model(str(write_config(tmp_path, LLAMA | {key: 0})))


@pytest.mark.parametrize(
    ("text", "problem"),
    [("{", "is not JSON"), ("[1]", "is not a JSON object but a list"), ("", "is not JSON")],
)
def test_invalid_config_is_refused_in_one_line(tmp_path, text, problem):
    with pytest.raises(InputError, match=problem) as excinfo:
        catalog.get_model(str(write_config(tmp_path, text)))
    assert "\n" not in str(excinfo.value)


def test_missing_file_and_empty_folder_are_reported(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        catalog.get_model(str(tmp_path / "config.json"))
    with pytest.raises(InputError, match=r"contains neither config\.json nor a GGUF file"):
        catalog.get_model(str(tmp_path))


def test_state_space_layers_are_refused(tmp_path):
    with pytest.raises(InputError, match="state-space layers"):
        catalog.get_model(str(write_config(tmp_path, LLAMA | {"hybrid_override_pattern": "M-M*"})))


def test_linear_attention_layers_have_no_cache(tmp_path):
    read = catalog.get_model(str(write_config(tmp_path, QWEN35)))
    assert (read.linear.layers, read.attention_layer_count) == (48, 16)
    assert read.parameters == pytest.approx(27e9, rel=0.02)  # "27B" in its name


@pytest.mark.parametrize(
    ("more", "window", "layers"),
    [
        ({"sliding_window": 4096}, 4096, 32),
        ({"sliding_window": None}, 0, 0),
        ({"sliding_window": 4096, "use_sliding_window": False}, 0, 0),
        ({"model_type": "gemma2", "sliding_window": 4096}, 4096, 16),
        ({"model_type": "gemma3_text", "sliding_window": 512, "sliding_window_pattern": 4}, 512, 24),
        ({"sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 16}, 128, 16),
        (
            {
                "model_type": "qwen2",
                "sliding_window": 4096,
                "use_sliding_window": True,
                "max_window_layers": 28,
            },
            4096,
            4,
        ),
    ],
)
def test_sliding_windows_are_read(tmp_path, more, window, layers):
    read = catalog.get_model(str(write_config(tmp_path, LLAMA | more)))
    assert (read.sliding_window, read.sliding_layers) == (window, layers)


@pytest.mark.parametrize(
    ("quantised", "precision"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "int4-g32"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4-g128"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4-single"),
        (
            {
                "quant_method": "bitsandbytes",
                "load_in_4bit": True,
                "bnb_4bit_quant_type": "nf4",
                "bnb_4bit_use_double_quant": True,
            },
            "nf4",
        ),
        ({"quant_method": "fp8"}, "fp8"),
    ],
)
def test_stored_precision_is_read_from_the_file(tmp_path, quantised, precision):
    read = catalog.get_model(str(write_config(tmp_path, LLAMA | {"quantization_config": quantised})))
    assert read.stored_precision == precision


def test_mpt_config_is_read_with_its_defaults(tmp_path):
    """MPT-7B by its own keys: d_model, expansion ratio, tied embeddings, two matrices a block."""
    mpt = {
        "model_type": "mpt",
        "d_model": 4096,
        "n_heads": 32,
        "n_layers": 32,
        "vocab_size": 50432,
        "max_seq_len": 2048,
    }
    read = catalog.get_model(str(write_config(tmp_path, mpt)))
    assert (read.intermediate, read.gated, read.tied_embeddings) == (16384, False, True)
    assert read.parameters == pytest.approx(6.65e9, rel=0.01)


def test_falcon_config_has_one_shared_key_value_head(tmp_path):
    falcon = {"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "num_hidden_layers": 32}
    read = catalog.get_model(str(write_config(tmp_path, falcon | {"vocab_size": 65024, "multi_query": True})))
    assert (read.kv_heads, read.max_context, read.intermediate) == (1, 2048, 18176)


@pytest.mark.parametrize(
    ("keys", "shared"),
    [({"shared_expert_intermediate_size": 5632}, 1), ({}, 0), ({"n_shared_experts": 2}, 2)],
    ids=["its width only", "none", "counted"],
)
def test_shared_experts_are_counted(tmp_path, keys, shared):
    experts = {"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408}
    read = catalog.get_model(
        str(write_config(tmp_path, LLAMA | {"model_type": "of-tomorrow"} | experts | keys))
    )
    assert read.experts.shared == shared


@pytest.mark.parametrize(
    ("vision", "billions", "note"),
    [
        (
            {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "model_type": "qwen3_vl"},
            0.411,
            "without patch",
        ),
        (
            {
                "num_hidden_layers": 48,
                "hidden_size": 1664,
                "intermediate_size": 8192,
                "model_type": "pixtral",
            },
            2.49,
            "",
        ),
        ({"patch_size": 14}, 0, "its vision tower is left out: vision_config has no layers or width"),
        ({"depth": "many", "hidden_size": True}, 0, "left out"),
    ],
)
def test_vision_tower_counts_or_is_named_as_left_out(vision, billions, note):
    text = {
        "model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        "intermediate_size": 128, "vocab_size": 100,
    }  # fmt: skip
    document = {"text_config": text, "vision_config": vision}
    with_tower = parse_huggingface_config(document, where="config.json", name="x")
    alone = parse_huggingface_config(text, where="config.json", name="x")
    assert with_tower.vision_parameters / 1e9 == pytest.approx(billions, rel=0.01)
    assert with_tower.parameters == alone.parameters + with_tower.vision_parameters
    assert with_tower.active_parameters == alone.active_parameters
    assert note in with_tower.note
    assert not alone.note


def test_audio_tower_is_named_as_left_out():
    document = {
        "model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        "intermediate_size": 128, "vocab_size": 100, "audio_config": {"hidden_size": 8},
    }  # fmt: skip
    model = parse_huggingface_config(document, where="config.json", name="x")
    assert model.note == "its audio tower is left out"
