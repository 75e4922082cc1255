"""The default engine by accelerator and number of streams."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet.sizing.model_engine import choose_model_engine

ONE, MANY = "llama.cpp", "vllm"
USUAL = {
    "H100 SXM5 80GB": (MANY, MANY), "A100 PCIe 80GB": (MANY, MANY), "GH200 96GB": (MANY, MANY),
    "B200": (MANY, MANY), "L40S": (MANY, MANY), "L4": (MANY, MANY), "A10G": (MANY, MANY), "T4": (MANY, MANY),
    "Tesla V100 SXM2 32GB": (MANY, MANY), "Instinct MI300X": (MANY, MANY),
    "GeForce RTX 4090": (ONE, MANY), "RTX 6000 Ada": (ONE, MANY),
    "GeForce GTX 1080 Ti": (ONE, ONE), "Tesla P40": (ONE, ONE),
    "M2 (10)": (ONE, ONE), "Compute Module 5 / Pi 5": (ONE, ONE), "Radeon RX 7900 XTX": (ONE, ONE),
}  # fmt: skip


@pytest.mark.parametrize("part", list(USUAL))
def test_default_engine_depends_on_the_hardware(part, workload, hardware):
    single_stream_engine, has_concurrent_streams = USUAL[part]
    kind = hardware(part)
    assert choose_model_engine(kind, workload()).name == single_stream_engine
    assert choose_model_engine(kind, workload(batch=8)).name == has_concurrent_streams
    assert choose_model_engine(kind, workload(has_concurrent_streams=True)).name == has_concurrent_streams


@pytest.mark.parametrize("part", ["H100 SXM5 80GB", "GeForce RTX 4090", "M2 (10)"])
def test_gguf_files_run_in_llama_cpp(part, workload, hardware):
    assert choose_model_engine(hardware(part), workload(precision="q4_k_m", batch=8)).name == "llama.cpp"


def test_gguf_file_in_sixteen_bits_runs_in_llama_cpp(workload, hardware):
    work = workload()
    file = replace(work, model=replace(work.model, stored=(("bf16", 1e9),)), precision="bf16")
    assert choose_model_engine(hardware("H100 SXM5 80GB"), file).name == "llama.cpp"


@pytest.mark.parametrize("options", ["tensorrt-llm", "llama.cpp", "sglang"])
def test_requested_engine_is_used(options, workload, hardware):
    assert choose_model_engine(hardware("H100 SXM5 80GB"), workload(engine=options)).name == options


@pytest.mark.parametrize("options", [{"requests_per_s": 1.0}, {"batch": "max"}, {"batch": "8"}])
@pytest.mark.parametrize("on", ["L40S", "L4", "A10G", "GeForce RTX 4090"])
def test_serving_uses_vllm(on, options, answer_size):
    answer = answer_size("qwen2.5-7b", on=on, devices=1, context="800/200", precision="fp8", **options)
    assert answer.plans[0].engine.name == "vllm"


def test_ranked_traffic_uses_vllm_on_cards(answer_size):
    plans = answer_size("qwen2.5-7b", requests_per_s=5.0, clouds=("aws",), context="800/200", top=0).plans
    cards = [plan for plan in plans if plan.hardware.accelerator.vendor == "NVIDIA"]
    assert cards
    assert {plan.engine.name for plan in cards} == {"vllm"}


@pytest.mark.parametrize("engine", ["", "distributed-llama"])
def test_replicas_of_boards_are_those_of_the_engine_that_runs_them(engine, answer_size):
    """With one KV head the engine uses one of four boards; its warning and the replicas say the same."""
    answer = answer_size("gemma-2b", on="Compute Module 5 / Pi 5", devices=4, engine=engine)
    assert (answer.plans[0].engine.name, answer.plans[0].replicas) == ("distributed-llama", 1)
    assert "nodes-power-of-two" in {warning.code for warning in answer.warnings}
