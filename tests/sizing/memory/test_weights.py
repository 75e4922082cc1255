from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet import catalog, sizing
from gpufleet.errors import InputError
from gpufleet.sizing.memory.quantization import GGUF_FILE_TYPES, normalize_precision

GIB = 2**30
# ggml-org/llama.cpp tools/quantize/README.md@311c2c9: sizes of Llama-3.1-8B, measured by its authors
TABLE = Path(__file__).parents[2] / "cases" / "sizing" / "llama_quantize.csv"
EIGHT = catalog.get_model("Llama-3.1-8B")


@pytest.mark.parametrize(
    "row", list(csv.DictReader(TABLE.read_text().splitlines())), ids=lambda row: row["type"]
)
def test_bits_of_mixed_quantisations_match_llama_cpp_to_four_digits(row):
    size = sizing.weight_bytes(EIGHT, row["type"])
    assert size * 8 / EIGHT.parameters == pytest.approx(float(row["bits_per_weight"]), abs=6e-4)
    assert size / GIB == pytest.approx(float(row["gib"]), abs=0.006)


@pytest.mark.parametrize(
    ("model", "precision", "gib", "source"),
    [
        ("Llama-3-70B", "q4_k_m", 39.59, "GPU-Benchmarks-on-LLM-Inference@aa72e0e"),
        ("DeepSeek-R1", "q4_k_m", 376.65, "geerlingguy/beowulf-ai-cluster issue 17"),
        ("Llama-3.1-405B", "q4_k_m", 249.1e9 / GIB, "llama.cpp tools/quantize/README.md@311c2c9"),
        (
            "Llama-3.1-70B",
            "f32",
            280.9e9 / GIB,
            "llama.cpp tools/quantize/README.md@311c2c9: original 280.9 GB",
        ),
    ],
)
def test_file_sizes_match_published_ones(model, precision, gib, source):
    predicted = sizing.weight_bytes(catalog.get_model(model), precision) / GIB
    assert predicted == pytest.approx(gib, rel=0.025 if "README" in source else 0.001), source


@pytest.mark.parametrize(
    ("precision", "bits"),
    [
        ("f32", 32),
        ("bf16", 16),
        ("FP16", 16),
        ("fp8", 8),
        ("int8", 8),
        ("q8_0", 8.5),
        ("q4_0", 4.5),
        ("q4_k_m", 4.5),
        ("mxfp4", 4.25),
        ("nvfp4", 4.5),
        ("int4", 4.15625),
        ("int4-g32", 4.625),
        ("INT4 g32", 4.625),
        ("nf4", 4.126953125),  # QLoRA: 4 + 8/64 + 32/(64 x 256)
        ("nf4-single", 4.5),
        ("Q40", 4.5),
        ("INT8 weight-only", 8),
    ],
)
def test_bits_per_weight_are_known(precision, bits):
    assert sizing.bits_per_weight(precision) == pytest.approx(bits)


def test_unknown_precision_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"unknown precision 'fp3'; one of f32, f16, bf16"):
        sizing.bits_per_weight("fp3")


def test_every_mixed_precision_gives_a_size_for_every_model():
    for model in catalog.load_models().values():
        for mixture in GGUF_FILE_TYPES:
            bits = sizing.weight_bytes(model, mixture) * 8 / model.parameters
            assert 1.1 < bits < 17, (model.name, mixture)


def test_formats_keep_embeddings_in_sixteen_bits():
    """NF4 of Llama 3 8B by hand: matrices of the layers in 4.127 bits, two 128256 x 4096 matrices and norms in 16."""
    embedding_parameters = 2 * 128256 * 4096
    body = 8030261248 - embedding_parameters - 65 * 4096
    assert sizing.weight_bytes(EIGHT, "nf4") == pytest.approx(
        body * 4.126953125 / 8 + (embedding_parameters + 65 * 4096) * 2
    )


def test_gpt_oss_size_matches_the_published_one():
    """MXFP4 holds the experts only; openai--gpt-oss-120b is 60.8 GiB on disk with the rest in 16 bits."""
    model = catalog.get_model("gpt-oss-120b")
    experts = 36 * 128 * 3 * 2880 * 2880
    rest = model.parameters - experts
    assert sizing.weight_bytes(model, "mxfp4") == pytest.approx(experts * 4.25 / 8 + rest * 2)


def test_expected_active_experts_match_a_manual_count():
    model = catalog.get_model("Qwen3-30B-A3B")
    assert sizing.expected_active_experts(model, 1) == pytest.approx(8)
    assert sizing.expected_active_experts(model, 2) == pytest.approx(8 + 8 * (1 - 8 / 128))
    assert sizing.expected_active_experts(model, 10_000) == pytest.approx(128)
    assert sizing.expected_active_experts(EIGHT, 5) == 0


def test_dense_model_reads_all_weights_but_its_embedding():
    read = sizing.active_weight_bytes(EIGHT, "bf16", 1)
    assert read == sizing.active_weight_bytes(EIGHT, "bf16", 512) == 2 * (EIGHT.parameters - 128256 * 4096)


def test_one_token_reads_the_active_weights():
    model = catalog.get_model("DeepSeek-V3")
    expected = 2 * (model.active_parameters - model.vocabulary * model.hidden)
    assert sizing.active_weight_bytes(model, "bf16", 1) == pytest.approx(expected)


@given(
    st.floats(1, 4096), st.floats(1, 4096), st.sampled_from(["Mixtral-8x7B", "DeepSeek-V3", "GPT-OSS-20B"])
)
def test_more_tokens_never_read_fewer_weights(fewer, more, name):
    fewer, more = sorted((fewer, more))
    model = catalog.get_model(name)
    unquantized = sizing.weight_bytes(model, "q4_k_m")
    assert (
        sizing.active_weight_bytes(model, "q4_k_m", fewer)
        <= sizing.active_weight_bytes(model, "q4_k_m", more)
        <= unquantized
    )


@given(
    st.sampled_from(sorted(catalog.load_models())),
    st.sampled_from(["q2_k", "q4_k_m", "q5_k_m", "q6_k", "q8_0"]),
)
def test_fewer_bits_never_need_more_memory(name, precision):
    model = catalog.get_model(name)
    assert sizing.weight_bytes(model, precision) < sizing.weight_bytes(model, "f16")


def test_precision_names_are_normalized():
    assert {normalize_precision(name) for name in ("bfloat16", "BF16", "bf16")} == {"bf16"}


@pytest.mark.parametrize(
    ("stored", "expected"), [("q4_k_m", "q4_k_m"), ("fp8", "fp8"), ("of_tomorrow", ""), ("", "")]
)
def test_stored_precision_is_used_if_known(stored, expected):
    assert sizing.stored_precision(replace(EIGHT, stored_precision=stored)) == expected
