from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet import catalog, sizing
from gpufleet.sizing import Hardware, ParallelLayout, Workload
from gpufleet.sizing.memory.inference import choose_engine_memory_profile

GIB = 2**30
EIGHT = catalog.get_model("Llama-3-8B")
CARD = Hardware("a card", catalog.get_accelerator("H100 SXM5 80GB"), devices_per_node=8)
NAMES = sorted(catalog.load_models())


def estimate(model=EIGHT, layout=None, hardware=CARD, **options):
    return sizing.estimate_memory(Workload(model, **options), layout or ParallelLayout(), hardware)


def test_vllm_on_one_card_matches_its_own_memory_profile():
    """vllm pull 10511 (2024-12-14), Llama 3 8B on 79.22 GiB: weights 14.96, activations 1.26, claims 0.9 of it."""
    answer = estimate(engine="vllm", input_tokens=8192, output_tokens=0)
    assert answer.weights == pytest.approx(14.96, abs=0.01)
    assert answer.activations == pytest.approx(1.26, rel=0.25)
    assert answer.reserved_gib == pytest.approx(71.29, rel=0.02)
    assert answer.per_device_gib < 20 < answer.reserved_gib  # needed is not what is claimed


def test_two_way_tensor_parallelism_halves_the_weights_of_vllm():
    """The same source: 7.48 GiB of weights a card on two."""
    answer = estimate(layout=ParallelLayout(devices=2, tensor=2, split="tensor"), engine="vllm")
    assert answer.weights / 2 == pytest.approx(7.48, abs=0.01)


def test_llama_cpp_reserves_logits_of_its_batch():
    """Its compute buffer holds 512 rows of 128,256 32-bit logits, 250 MiB, however short the prompt is."""
    for prompt in (0, 4096):
        answer = estimate(precision="q4_k_m", engine="llama.cpp", input_tokens=prompt)
        assert 0.245 < answer.activations < 0.4


def test_llama_cpp_keeps_the_embedding_in_host_memory():
    """It logs for this file: CUDA0 model buffer size = 4403.49 MiB, CPU_Mapped model buffer size = 281.81 MiB."""
    card = estimate(precision="q4_k_m", engine="llama.cpp").weights
    all_weights = sizing.weight_bytes(catalog.get_model("Llama-3-8B"), "q4_k_m") / GIB
    assert card * 1024 == pytest.approx(4403.49, abs=0.5)
    assert (all_weights - card) * 1024 == pytest.approx(281.81, abs=0.5)


def test_embedding_stays_in_device_memory_if_unified_or_tied():
    tied = catalog.get_model("Llama-3.2-1B")
    assert estimate(tied, precision="q8_0", engine="llama.cpp").weights == pytest.approx(
        sizing.weight_bytes(tied, "q8_0") / GIB
    )
    mac = sizing.estimate_memory(
        Workload(model=catalog.get_model("Llama-3-8B"), precision="q4_k_m", engine="llama.cpp"),
        ParallelLayout(),
        Hardware(name="mac", accelerator=catalog.get_accelerator("M4 Max (40)"), unified=True),
    )
    assert mac.weights == pytest.approx(4.58, abs=0.01)


@pytest.mark.parametrize(
    ("model", "prompt", "gib", "error"),
    [
        ("Qwen2.5-0.5B", 1, 0.97, 0.03),
        ("Qwen2.5-0.5B", 30720, 2.34, 0.15),  # transformers 4.46
        ("Qwen3-14B", 1, 27.736, 0.01),
        ("Qwen3-14B", 30720, 32.555, 0.08),  # transformers 4.51
    ],
)
def test_transformers_reserves_no_memory_and_prefills_in_one_step(model, prompt, gib, error):
    """Peaks of 2,048 generated tokens from Qwen2.5's and Qwen3's pages of speed benchmarks."""
    answer = estimate(
        catalog.get_model(model), engine="transformers", input_tokens=prompt, output_tokens=2048
    )
    assert answer.per_device_gib == pytest.approx(gib, rel=error)


def test_growing_cache_and_prompt_step_are_not_added():
    """The prompt step is over before the cache of the answer exists: a long answer hides a short prompt's step."""
    model = catalog.get_model("Qwen2.5-7B")
    short, long = (
        estimate(model, engine="transformers", input_tokens=n, output_tokens=8192).activations
        for n in (1, 1024)
    )
    assert long == pytest.approx(short)


@pytest.mark.parametrize(("name", "gib"), [("gpt-oss-20b", 11.27), ("gpt-oss-120b", 59.02)])
def test_mxfp4_files_of_llama_cpp_have_attention_in_eight_bits(name, gib):
    """ggml-org/llama.cpp benches/dgx-spark.md prints both sizes; other engines keep it in sixteen bits."""
    model = catalog.get_model(name)
    assert sizing.weight_bytes(model, "mxfp4_moe") / GIB == pytest.approx(gib, abs=0.01)
    weights_by_engine = {
        engine: estimate(model, precision="mxfp4", engine=engine).weights for engine in ("llama.cpp", "vllm")
    }
    assert weights_by_engine["llama.cpp"] < gib < weights_by_engine["vllm"]


def test_cuda_graphs_are_counted_outside_the_engine_share():
    graphs = estimate(engine="vllm").overhead - estimate(engine="llama.cpp", precision="q8_0").overhead
    assert graphs > 1.0


def test_kv_heads_are_replicated_on_more_devices_than_heads():
    few, many = (
        estimate(layout=ParallelLayout(devices=n, tensor=n, split="tensor"), batch=8).kv_cache / n
        for n in (8, 16)
    )
    assert few == many  # eight KV heads: sixteen devices hold each twice


def test_latent_caches_are_replicated_on_every_device():
    model = catalog.get_model("DeepSeek-V3")
    answer = estimate(model, ParallelLayout(devices=8, tensor=8, split="tensor"), precision="fp8", batch=4)
    assert answer.kv_cache == pytest.approx(8 * 4 * sizing.kv_cache_bytes(model, 1280) / GIB)


def test_layer_split_puts_embedding_or_output_on_one_device():
    model = catalog.get_model("Llama-3-70B")
    answer = estimate(model, ParallelLayout(devices=4, split="layer"), precision="f16")
    layers = (model.parameters - 2 * 128256 * 8192) * 2 / 4
    assert answer.weights / 4 == pytest.approx((layers + 2 * 128256 * 8192) / GIB, rel=1e-3)


def test_experts_are_spread_over_more_devices_than_other_weights():
    model = catalog.get_model("DeepSeek-V3")
    tensor = estimate(model, ParallelLayout(devices=8, tensor=8, split="tensor"), precision="fp8")
    spread = estimate(model, ParallelLayout(devices=16, tensor=8, expert=16, split="tensor"), precision="fp8")
    assert spread.weights / 16 < 0.55 * tensor.weights / 8


@pytest.mark.parametrize(
    ("part", "precision", "engine", "expected"),
    [
        ("H100 SXM5 80GB", "bf16", None, "vllm"),
        ("H100 SXM5 80GB", "q4_k_m", None, "llama.cpp"),
        ("RK3588", "w8a8", None, "rknn"),
        ("H100 SXM5 80GB", "bf16", "TensorRT-LLM", "tensorrt-llm"),
        ("H100 SXM5 80GB", "bf16", "gpt-fast", "pytorch"),
        ("GeForce RTX 4090", "bf16", "ollama", "llama.cpp"),
    ],
)
def test_default_engine_depends_on_the_hardware(part, precision, engine, expected):
    workload = Workload(EIGHT, precision=precision, engine=engine)
    assert choose_engine_memory_profile(workload, catalog.get_accelerator(part)).name == expected


def test_gpu_of_apple_cannot_use_all_memory():
    mac = Hardware("a Mac", catalog.get_accelerator("M4 (10)"), unified=True)
    assert choose_engine_memory_profile(Workload(EIGHT), mac.accelerator).name == "llama.cpp"
    assert sizing.usable_memory_gib(mac.accelerator) <= mac.accelerator.memory_gib


@settings(max_examples=60)
@given(
    st.sampled_from(NAMES),
    st.sampled_from(["bf16", "fp8", "q4_k_m", "nvfp4"]),
    st.integers(1, 64),
    st.integers(1, 50_000),
)
def test_more_streams_and_tokens_never_need_less_memory(name, precision, batch, tokens):
    workload = Workload(catalog.get_model(name), precision=precision, batch=batch, input_tokens=tokens)
    gib = sizing.estimate_memory(workload, ParallelLayout(), CARD).per_device_gib
    assert (
        gib
        <= sizing.estimate_memory(replace(workload, batch=batch + 1), ParallelLayout(), CARD).per_device_gib
    )
    assert (
        gib
        <= sizing.estimate_memory(
            replace(workload, input_tokens=tokens + 1000), ParallelLayout(), CARD
        ).per_device_gib
    )
    split = sizing.estimate_memory(
        workload, ParallelLayout(devices=2, tensor=2, split="tensor"), CARD
    ).per_device_gib
    assert split <= gib


@given(st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_more_parameters_never_need_less_memory(one, other):
    small, large = sorted(
        (catalog.get_model(one), catalog.get_model(other)), key=lambda model: model.parameters
    )
    assert sizing.weight_bytes(small, "bf16") <= sizing.weight_bytes(large, "bf16")


def test_rknn_runtime_memory_grows_with_the_vocabulary():
    small, large = catalog.get_model("TinyLlama-1.1B"), catalog.get_model("Llama-3-8B")
    runtime = [estimate(model, precision="w8a8", engine="rknn").overhead for model in (small, large)]
    assert large.vocabulary > small.vocabulary
    assert 0 < runtime[0] < runtime[1]
