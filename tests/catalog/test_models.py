from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gpufleet import catalog
from gpufleet.catalog.parameter_count import list_weight_matrices
from gpufleet.errors import InputError

CASES = Path(__file__).parents[1] / "cases" / "catalog" / "model_parameters.csv"


@pytest.mark.parametrize(
    "row", list(csv.DictReader(CASES.read_text().splitlines())), ids=lambda row: row["model"]
)
def test_parameter_counts_match_published_ones(row):
    computed = catalog.get_model(row["model"]).parameters
    assert computed == pytest.approx(float(row["parameters"]), rel=float(row["within"]) or 1e-12)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("llama-3.1-70b", "Llama-3.1-70B"),
        ("qwen2.5-7b", "Qwen2.5-7B"),
        ("Llama-3-8B", "Llama-3-8B"),
        ("LLAMA 3 8b", "Llama-3-8B"),
        ("DeepSeek-R1-Distill-14B", "DeepSeek-R1-Distill-Qwen-14B"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("llama3.2:3b", "Llama-3.2-3B"),
        ("deepseek-r1", "DeepSeek-R1"),
        ("DeepSeek-R1-671B", "DeepSeek-R1"),
        ("Qwen2-0.5B", "Qwen2-0.5B"),
        ("qwen2.5-14b", "Qwen2.5-14B"),
        ("qwen2.5-32b", "Qwen2.5-32B"),
        ("gptoss20b", "GPT-OSS-20B"),
        ("codellama-34b", "CodeLlama-34B"),
        ("qwen3-30b-a3b", "Qwen3-30B-A3B"),
        ("GPT-2 XL", "GPT-2-XL"),
        ("facebook/opt-66b", "OPT-66B"),
        ("mistral-7b", "Mistral-7B-v0.3"),
        ("235b", "Qwen3-235B-A22B"),
        ("deepseek-v3.2", "DeepSeek-V3.2"),
        ("deepseek-ai/DeepSeek-V3.2", "DeepSeek-V3.2"),
        ("deepseek v3", "DeepSeek-V3"),
        ("deepseek-ai/DeepSeek-V4-Pro", "DeepSeek-V4-Pro"),
        ("DeepSeekV4Flash", "DeepSeek-V4-Flash"),
        ("zai-org/GLM-4.6", "GLM-4.6"),
        ("glm5", "GLM-5"),
        ("zai-org/GLM-5.1", "GLM-5"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen3-Next-80B-A3B"),
        ("qwen3-next", "Qwen3-Next-80B-A3B"),
        ("Qwen/Qwen3.5-397B-A17B", "Qwen3.5-397B-A17B"),
        ("qwen3.6:27b", "Qwen3.6-27B"),
        ("Qwen/Qwen3-VL-8B-Instruct", "Qwen3-VL-8B"),
        ("kimi k2.5", "Kimi-K2.5"),
        ("moonshotai/Kimi-K2.5", "Kimi-K2.5"),
        ("google/gemma-4-31b-it", "Gemma-4-31B"),
        ("MiniMaxAI/MiniMax-M2", "MiniMax-M2"),
        ("mistralai/Mistral-Large-3-675B-Instruct-2512", "Mistral-Large-3"),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", "Nemotron-3-Super-120B-A12B"),
        ("nemotron-3-nano", "Nemotron-3-Nano-30B-A3B"),
        ("google-bert/bert-base-uncased", "BERT-base"),
        ("answerdotai/ModernBERT-large", "ModernBERT-large"),
        ("BAAI/bge-m3", "bge-m3"),
        ("intfloat/e5-large-v2", "e5-large-v2"),
    ],
)
def test_model_is_found_by_any_unambiguous_part_of_its_name(query, name):
    assert catalog.get_model(query).name == name


def test_ambiguous_name_lists_the_candidates():
    with pytest.raises(
        InputError, match=r"model 'gpt-oss' is ambiguous; name one of: GPT-OSS-20B, GPT-OSS-120B"
    ):
        catalog.get_model("gpt-oss")


def test_misspelt_model_is_refused_with_a_suggestion():
    with pytest.raises(InputError, match=r"unknown model 'lamma-3-8b'; did you mean Llama-3-8B"):
        catalog.get_model("lamma-3-8b")


def test_empty_name_is_refused():
    with pytest.raises(InputError, match="unknown model ''"):
        catalog.get_model("")


def test_every_row_has_a_source_and_a_date():
    for name, model in catalog.load_models().items():
        assert model.source, name
        assert model.as_of[:2] == "20", name
        assert "recall" not in model.source.lower(), name


def test_model_shapes_are_consistent():
    for name, model in catalog.load_models().items():
        assert model.heads % model.kv_heads == 0, name
        assert model.sliding_layers <= model.layers, name
        assert bool(model.sliding_window) == bool(model.sliding_layers), name
        assert 0 < model.active_parameters <= model.parameters, name


def test_only_mixture_of_experts_models_have_inactive_weights():
    idle = {
        name for name, model in catalog.load_models().items() if model.active_parameters < model.parameters
    }
    assert idle == {
        name for name, model in catalog.load_models().items() if model.experts or model.vision_parameters
    }


@pytest.mark.parametrize(
    ("name", "billions", "source"),
    [
        ("Mixtral-8x7B", 12.9, "mistral.ai/news/mixtral-of-experts, as maxtext's tests cite it"),
        ("DeepSeek-V2", 21.0, "arXiv 2405.04434 abstract, as maxtext's tests cite it"),
        ("DeepSeek-V3", 37.0, "DeepSeek-V3 README: 37B active"),
        ("Phi-3.5-MoE", 6.6, "Azure/azureml-assets phi-3.5-moe-128k-instruct"),
        ("Qwen3-235B-A22B", 22.0, "its name"),
        ("Kimi-K2", 32.0, "its config: 1T total, 32B active"),
        ("Kimi-K2.5", 32.0, "its model card: 1T total, 32B active"),
        ("Qwen3-Next-80B-A3B", 3.875, "Qwen3-Coder-Next: its tensors less inactive experts, 3,874,929,408"),
        (
            "Nemotron-3-Super-120B-A12B",
            12.770,
            "its tensors less inactive experts and multi-token prediction",
        ),
        ("Nemotron-3-Ultra-550B-A55B", 55.0, "its name"),
        ("Gemma-4-26B-A4B", 3.8, "its model card"),
        ("Mistral-Large-3", 39.0, "its model card: 39B of the language model"),
        ("Qwen3.5-397B-A17B", 17.0, "its name"),
    ],
)
def test_active_parameter_counts_match_published_ones(name, billions, source):
    assert catalog.get_model(name).active_parameters / 1e9 == pytest.approx(billions, rel=0.03), source


def test_matrix_sizes_of_llama_3_8b_match_a_manual_count():
    """Llama 3 8B: 4 x 4096 x 4096-ish attention with 8 of 32 heads for K and V, three 4096 x 14336 matrices."""
    sizes: dict[str, float] = {}
    for matrix in list_weight_matrices(catalog.get_model("Llama-3-8B")):
        sizes[matrix.kind] = sizes.get(matrix.kind, 0) + matrix.element_count
    assert sizes["q"] == sizes["o"] == 32 * 4096 * 4096
    assert sizes["k"] == sizes["v"] == 32 * 1024 * 4096
    assert sizes["gate"] == sizes["up"] == sizes["down"] == 32 * 4096 * 14336
    assert sizes["embedding"] == sizes["output"] == 128256 * 4096
    assert sizes["small"] == (2 * 32 + 1) * 4096


def test_version_number_matches_only_a_complete_number():
    """A 3 does not stand in LLaMA-30B."""
    with pytest.raises(InputError, match="ambiguous") as excinfo:
        catalog.get_model("llama-3")
    assert "LLaMA-30B" not in str(excinfo.value)
    assert "Llama-3-8B" in str(excinfo.value)


def test_format_at_the_end_of_a_repository_name_is_the_precision_of_its_weights():
    model = catalog.get_model("nvidia/DeepSeek-V3.2-NVFP4")
    assert (model.name, model.stored_precision) == ("DeepSeek-V3.2", "nvfp4")


def test_model_without_a_sourced_config_is_refused_with_what_to_give():
    with pytest.raises(InputError, match=r"unknown model 'gpt-5'.*give its config.json or GGUF file"):
        catalog.get_model("gpt-5")


@pytest.mark.parametrize(
    ("name", "tokens", "gib", "source"),
    [
        # 30 layers of one entry in 4 with index keys, 31 of one in 128, a window of 128 in all 61
        ("DeepSeek-V4-Pro", 2**20, 9.62, "DeepSeek-V4 report: 9.62 GiB at a million tokens in 16 bits"),
        # 576 elements of MLA and a key of the index in 128 bytes with a scale of four, in 61 layers
        ("DeepSeek-V3.2", 1024, 61 * (576 * 2 + 132) * 1024 / 2**30, "its config.json"),
        # 15 of 60 layers have 2 heads of 256 for keys and values; a state in 32 bits in the others
        ("Qwen3.5-397B-A17B", 0, 45 * (64 * 128 * 128 + 4 * 12288) * 4 / 2**30, "its config.json"),
        ("Gemma-4-31B", 2048, (50 * 8192 * 1024 + 10 * 4096 * 2048) * 2 / 2**30, "its config.json"),
        ("BERT-base", 512, 0, "an encoder keeps no cache"),
    ],
)
def test_caches_of_layers_that_differ_match_published_figures(name, tokens, gib, source):
    from gpufleet import sizing

    assert sizing.kv_cache_bytes(catalog.get_model(name), tokens) / 2**30 == pytest.approx(gib, rel=2e-3), (
        source
    )


def test_sparse_attention_reads_less_than_it_keeps():
    from gpufleet.sizing.memory.kv_cache import kv_cache_bytes, kv_cache_bytes_read

    model = catalog.get_model("DeepSeek-V3.2")
    assert kv_cache_bytes_read(model, 100_000) == 61 * (2 * 576 * 2048 + 132 * 100_000)
    assert kv_cache_bytes_read(model, 1000) == kv_cache_bytes(model, 1000)


def test_malformed_cache_of_a_row_is_refused_with_its_cell():
    from gpufleet.boundary import CsvRow
    from gpufleet.catalog.language_model import _parse_caches

    with pytest.raises(InputError, match=r"models_2026.csv:2.*cache.*'61x'"):
        _parse_caches(CsvRow([("cache", "61x")], "models_2026.csv:2"))
