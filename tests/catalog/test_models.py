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
    assert idle == {name for name, model in catalog.load_models().items() if model.experts}


@pytest.mark.parametrize(
    ("name", "billions", "source"),
    [
        ("Mixtral-8x7B", 12.9, "mistral.ai/news/mixtral-of-experts, as maxtext's tests cite it"),
        ("DeepSeek-V2", 21.0, "arXiv 2405.04434 abstract, as maxtext's tests cite it"),
        ("DeepSeek-V3", 37.0, "DeepSeek-V3 README: 37B active"),
        ("Phi-3.5-MoE", 6.6, "Azure/azureml-assets phi-3.5-moe-128k-instruct"),
        ("Qwen3-235B-A22B", 22.0, "its name"),
        ("Kimi-K2", 32.0, "its config: 1T total, 32B active"),
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
