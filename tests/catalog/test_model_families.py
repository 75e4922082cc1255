"""Every CausalLM family of transformers 5.24: within one per cent of its true count, or refused with the key named.

The counts are those of the families' own classes on the meta device (tools/model_witness).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpufleet import catalog, sizing
from gpufleet.catalog.data_file import load_catalog_rows
from gpufleet.catalog.huggingface_config import parse_huggingface_config
from gpufleet.errors import InputError
from tests.catalog.test_configfile import LLAMA, write_config

WITNESS = json.loads((Path(__file__).parents[1] / "cases" / "catalog" / "model_families.json").read_text())
ENCODER_KEYS = ("vision_config", "audio_config")  # only the language part of these is counted
REFUSAL = re.compile(r"is missing|is not supported|which are not supported|is not understood")
# transformers' class makes the input matrices of the 256 experts that do nothing; the model has 560 billion weights
# (arXiv 2509.01322)
OTHER_COUNTS = {"longcat_flash": 560e9}
SOME_FAMILIES_THAT_ARE_COUNTED = (
    "llama qwen2 qwen3_moe gemma2 gemma3n_text gemma4_text granite granitemoe granitemoehybrid ernie4_5 ernie4_5_moe "
    "lfm2 nemotron_h arcee apertus bert roberta opt deepseek_v3 deepseek_v32 deepseek_v4 glm_moe_dsa gpt_oss"
)


def find_count(config, name):
    """Return the counted parameters, None if the family is refused with a key."""
    try:
        return parse_huggingface_config(config, where="config.json", name=name).parameters
    except InputError as error:
        if error.key and REFUSAL.search(str(error)):
            return None
        raise


@pytest.mark.parametrize("name", WITNESS["families"])
def test_family_is_within_one_per_cent_or_refused_with_its_key(name):
    case = WITNESS["families"][name]
    counted = find_count(case["config"], name)
    if counted is None:
        assert name not in SOME_FAMILIES_THAT_ARE_COUNTED.split()
    elif any(key in case["config"] for key in ENCODER_KEYS):
        assert counted <= case["parameters"] * 1.01
    else:
        assert counted == pytest.approx(OTHER_COUNTS.get(name, case["parameters"]), rel=0.01)


def test_most_families_are_counted():
    counted = [name for name, case in WITNESS["families"].items() if find_count(case["config"], name)]
    assert len(counted) >= 128
    assert set(SOME_FAMILIES_THAT_ARE_COUNTED.split()) <= set(counted)


@pytest.mark.parametrize("name", WITNESS["published"])
def test_published_config_is_within_one_per_cent_of_its_class(name):
    case = WITNESS["published"][name]
    assert find_count(case["config"], name) == pytest.approx(case["parameters"], rel=0.01)


def test_refused_family_names_its_key_and_a_way_out(tmp_path):
    with pytest.raises(
        InputError, match=r"kv_channels: a model of type jetmoe is not supported: .*GGUF file"
    ):
        catalog.get_model(str(write_config(tmp_path, LLAMA | {"model_type": "jetmoe"})))


def test_infinity_in_a_config_is_read(tmp_path):
    """Python writes Infinity into the config.json of models with state-space layers."""
    text = json.dumps(LLAMA | {"time_step_limit": [0.0, float("inf")]})
    assert "Infinity" in text
    assert catalog.get_model(str(write_config(tmp_path, text))).layers == 32


def test_dense_granite_with_unused_state_space_keys_is_counted(tmp_path):
    """granite-4.0-micro: attention in all layers, no experts; its config.json has the keys of Mamba-2."""
    granite = LLAMA | {
        "model_type": "granitemoehybrid",
        "layer_types": ["attention"] * 32,
        "num_local_experts": 0,
        "shared_intermediate_size": 8192,
        "mamba_d_state": 128,
        "mamba_n_heads": 64,
    }
    model = catalog.get_model(str(write_config(tmp_path, granite)))
    assert (model.intermediate, model.attention_layer_count, model.state_bytes) == (8192, 32, 0)


def test_layers_of_nemotron_h_are_attention_experts_or_recurrent():
    config = WITNESS["published"]["nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"]["config"]
    model = parse_huggingface_config(config, where="config.json", name="nano")
    assert (model.layers, model.attention_layer_count) == (52, 6)
    assert model.active_parameters == pytest.approx(3.5e9, rel=0.1)  # its model card: 3.5 B
    # 6 layers of attention with 2 heads of 128; 23 with a state of 64 x 64 x 128 in 32 bits and a window of 4
    state = 23 * (64 * 64 * 128 * 4 + (4096 + 2 * 8 * 128) * 4 * 2)
    assert sizing.kv_cache_bytes(model, 10_000) == 10_000 * 6 * 2 * 2 * 128 * 2 + state


def test_indexer_of_deepseek_v32_keeps_a_key_of_each_token():
    """128 bytes and a scale of four beside the 576 values of latent attention, in each of 61 layers."""
    config = WITNESS["published"]["deepseek-ai--DeepSeek-V3.2"]["config"]
    model = parse_huggingface_config(config, where="config.json", name="v3.2")
    assert sizing.kv_cache_bytes_per_token(model) == 61 * (576 * 2 + 132)
    assert sizing.kv_cache_bytes_per_token(model, "fp8") == 61 * (576 + 132)


def test_longcat_has_two_attention_blocks_a_layer():
    config = WITNESS["families"]["longcat_flash"]["config"]
    model = parse_huggingface_config(config, where="config.json", name="longcat")
    assert sizing.kv_cache_bytes_per_token(model) == 2 * 28 * (512 + 64) * 2


def test_last_layers_of_gemma_3n_share_a_cache():
    config = WITNESS["families"]["gemma3n_text"]["config"]
    model = parse_huggingface_config(config, where="config.json", name="gemma-3n")
    assert sizing.kv_cache_bytes(model, 32768) == 2 * 2 * 256 * 2 * (4 * 32768 + 16 * 512)


def test_cache_of_deepseek_v4_is_compressed():
    """43 windows of 128 tokens; then one entry of 512 and 128 for four tokens, or of 512 for 128."""
    config = WITNESS["families"]["deepseek_v4"]["config"]
    model = parse_huggingface_config(config, where="config.json", name="v4")
    assert sizing.kv_cache_bytes(model, 128_000) == 2 * (43 * 512 * 128 + 128_000 * (20 * 160 + 23 * 4))


def test_structural_key_of_an_unknown_family_is_refused(tmp_path):
    config = LLAMA | {"model_type": "of-tomorrow", "memory_bank_size": 4096}
    with pytest.raises(
        InputError, match=r"memory_bank_size: is not understood in a model of type of-tomorrow"
    ):
        catalog.get_model(str(write_config(tmp_path, config)))


@pytest.mark.parametrize("more", [{}, {"n_group": 8}, {"memory_bank_size": 0}, {"memory_bank_size": None}])
def test_unknown_family_with_standard_keys_is_counted(tmp_path, more):
    config = LLAMA | {"model_type": "of-tomorrow"} | more
    assert catalog.get_model(str(write_config(tmp_path, config))).parameters == pytest.approx(
        8.03e9, rel=0.001
    )


def test_settings_that_contradict_each_other_are_refused():
    """More shared caches than layers would leave fewer than no weights."""
    config = WITNESS["families"]["gemma3n_text"]["config"] | {"num_kv_shared_layers": 10**9}
    with pytest.raises(InputError, match="describes a model without weights"):
        parse_huggingface_config(config, where="config.json", name="gemma-3n")


def test_lists_of_families_do_not_overlap():
    counted = {row["model_type"] for row in load_catalog_rows("counted_families.csv")}
    refused = {row["model_type"] for row in load_catalog_rows("refused_families.csv")}
    assert not counted & refused
    assert counted | refused <= {*WITNESS["families"], *(find_type(c) for c in WITNESS["published"].values())}


def find_type(case):
    return (case["config"].get("text_config") or case["config"])["model_type"]


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("deepseek-ai--DeepSeek-V3.2", "DeepSeek-V3.2"),
        ("zai-org--GLM-5.2", "GLM-5.2"),
        ("deepseek-ai--DeepSeek-V4-Pro", "DeepSeek-V4-Pro"),
    ],
)
def test_config_has_the_caches_of_its_row_in_the_catalogue(case, name):
    model = parse_huggingface_config(WITNESS["published"][case]["config"], where="config.json", name=name)
    assert model.caches == catalog.get_model(name).caches
    assert "scores of its indexer" in model.note


@pytest.mark.parametrize(("more", "is_encoder"), [({}, True), ({"is_decoder": True}, False)])
def test_encoder_of_a_config_generates_no_tokens(more, is_encoder):
    config = WITNESS["families"]["bert"]["config"] | more
    model = parse_huggingface_config(config, where="config.json", name="bert")
    assert model.is_encoder is is_encoder
    assert ("documents a second" in model.note) is is_encoder
