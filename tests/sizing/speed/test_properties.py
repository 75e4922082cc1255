"""Properties of every prediction, independent of the factors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet import catalog
from gpufleet.sizing.speed import classify_device
from gpufleet.sizing.speed.device import find_peak_flops

ENGINES = ["llama.cpp", "vllm", "tensorrt-llm", "pytorch", None]
PARTS = ["GeForce RTX 4090", "H100 SXM5 80GB", "M2 Ultra (76)", "Compute Module 5 / Pi 5", "Instinct MI300X"]


@pytest.mark.parametrize("engine", ENGINES)
def test_more_bandwidth_is_never_slower(predict, engine):
    part = catalog.get_accelerator("A100 SXM4 80GB")
    speeds = [
        predict(part=replace(part, bandwidth_gb_s=part.bandwidth_gb_s * times), engine=engine).tokens_per_s
        for times in (0.25, 0.5, 1, 2, 4)
    ]
    assert speeds == sorted(speeds)
    assert speeds[0] < speeds[-1]


def test_more_operations_per_second_are_never_slower(predict):
    part = catalog.get_accelerator("A100 SXM4 80GB")
    faster = [replace(part, bf16_tflops_dense=rate) for rate in (100.0, 200.0, 400.0, 800.0)]
    prompts = [predict(part=prediction, input_tokens=4096).prompt_tokens_per_s for prediction in faster]
    trained = [predict(part=prediction, task="pretrain", batch=4).tokens_per_s for prediction in faster]
    assert prompts == sorted(prompts)
    assert trained == sorted(trained)


@pytest.mark.parametrize("part", PARTS)
def test_longer_contexts_are_never_faster(predict, part):
    speeds = [
        predict(model="Llama-3.2-3B", part=part, input_tokens=length, precision="int4").per_stream
        for length in (16, 512, 4096, 32768)
    ]
    assert speeds == sorted(speeds, reverse=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_more_streams_never_lower_the_total_until_memory_is_full(predict, engine):
    answers = [predict(batch=batch, engine=engine) for batch in (1, 2, 4, 8, 16, 32, 64)]
    totals = [answer.tokens_per_s for answer in answers]
    assert totals == sorted(totals)
    assert not any("memory holds" in note for answer in answers for note in answer.notes)


def test_streams_beyond_memory_are_queued(predict):
    full, more = predict(batch=4096, input_tokens=4096), predict(batch=8192, input_tokens=4096)
    assert full.tokens_per_s == pytest.approx(more.tokens_per_s)
    assert any("the others wait" in note for note in more.notes)


@pytest.mark.parametrize("task", ["inference", "pretrain", "lora", "qlora"])
@pytest.mark.parametrize("part", PARTS)
def test_interval_includes_the_prediction(predict, part, task):
    speed = predict(model="Llama-3.2-3B", part=part, task=task)
    assert 0 < speed.low < speed.tokens_per_s < speed.high


def test_fewer_bits_are_never_slower(predict):
    speeds = [
        predict(part="GeForce RTX 4090", precision=name, engine="llama.cpp").tokens_per_s
        for name in ("f16", "q8_0", "q4_0")
    ]
    assert speeds == sorted(speeds)


def test_part_without_a_known_bandwidth_has_no_predicted_speed(predict):
    part = replace(catalog.get_accelerator("H100 SXM5 80GB"), bandwidth_gb_s=None)
    speed = predict(part=part)
    assert (speed.tokens_per_s, speed.low, speed.high, speed.limit) == (None, None, None, None)
    assert "the memory bandwidth of" in speed.notes[0]


def test_part_without_a_known_rate_has_no_predicted_training_speed(predict):
    part = replace(
        catalog.get_accelerator("H100 SXM5 80GB"),
        fp32_tflops=None,
        bf16_tflops_dense=None,
        fp16_tflops_dense=None,
    )
    speed = predict(part=part, task="pretrain")
    assert speed.tokens_per_s is None
    assert "the compute rate of" in speed.notes[0]


def test_device_kind_without_measurements_has_a_wider_interval_and_a_note(predict):
    known, new = predict(part="A100 SXM4 80GB"), predict(part="Gaudi3")
    assert new.high / new.low > known.high / known.low
    assert any("few measurements" in note for note in new.notes)


def test_throughput_of_experts_grows_less_than_the_number_of_streams(predict):
    single_stream = predict(model="Qwen3-30B-A3B", batch=1, engine="vllm")
    many = predict(model="Qwen3-30B-A3B", batch=16, engine="vllm")
    dense = (
        predict(model="Qwen2.5-3B", batch=16, engine="vllm").tokens_per_s
        / predict(model="Qwen2.5-3B", batch=1, engine="vllm").tokens_per_s
    )
    assert 1 < many.tokens_per_s / single_stream.tokens_per_s < dense


def test_predicted_power_is_between_idle_and_rated_power(predict):
    rating = catalog.get_accelerator("A100 SXM4 80GB").tdp_w
    assert 0.2 * rating < predict().watts < rating
    layers = predict(model="Llama-3.1-70B", devices=4, split="layer", engine="llama.cpp")
    tensor = predict(model="Llama-3.1-70B", devices=4, engine="vllm")
    assert layers.watts < tensor.watts


def test_every_part_of_the_catalogue_has_a_speed_or_a_reason(predict):
    for name, part in catalog.load_accelerators().items():
        speed = predict(model="TinyLlama-1.1B", part=part)
        assert speed.tokens_per_s or speed.notes, name
        assert classify_device(part) not in ("", "other") or speed.tokens_per_s is None or speed.notes


@pytest.mark.parametrize(
    ("accelerator", "engine", "tflops"),
    [
        ("B200", "vllm", 4500.0),  # MXFP4 weights times MXFP8 activations: the 8-bit rate
        ("H100 SXM5 80GB", "vllm", 989.0),  # unpacked to 16 bits
        ("MI355X", "vllm", None),
        ("B200", "llama.cpp", None),
    ],
)
def test_mxfp4_computes_at_the_rate_of_its_kernels(accelerator, engine, tflops):
    part = catalog.get_accelerator(accelerator)
    rate = find_peak_flops(part, "mxfp4", engine) / 1e12
    if tflops is not None:
        assert rate == pytest.approx(tflops, rel=0.01)
    elif engine == "llama.cpp":
        assert rate == pytest.approx(find_peak_flops(part, "q4_0", engine) / 1e12)
    else:
        assert rate == part.fp8_tflops_dense
