"""Layouts that options fix: refused if impossible, sized as asked otherwise."""

from __future__ import annotations

import pytest

from gpufleet.errors import InputError

MIXTURE = {"model": "deepseek-v3", "precision": "fp8", "on": "H200 SXM 141GB"}
DENSE = {"model": "llama-3.1-70b", "precision": "fp8", "on": "H100 SXM5 80GB"}


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({**DENSE, "tensor_parallel": 3}, "3 does not divide the 64 heads and 8 KV heads"),
        ({**DENSE, "pipeline_parallel": 81}, "81 is more than the 80 layers"),
        ({**DENSE, "expert_parallel": 8}, "has no experts"),
        ({**MIXTURE, "tensor_parallel": 8, "expert_parallel": 3}, "3 does not fit the 8 devices"),
        ({**MIXTURE, "data_parallel": 8, "expert_parallel": 4}, "4 does not fit the 8 devices"),
        ({**MIXTURE, "data_parallel": 512, "expert_parallel": 512}, "512 is more than the 256 experts"),
        ({**DENSE, "tensor_parallel": 4, "devices": 6}, "6 is not a multiple of the layout's 4 devices"),
        ({**DENSE, "tensor_parallel": 2, "engine": "llama.cpp"}, "llama.cpp splits layers, not tensors"),
        ({**DENSE, "on": "", "tensor_parallel": 2}, "needs --on"),
        ({**DENSE, "tensor_parallel": 0}, "--tensor-parallel"),
        ({**DENSE, "engine_version": "0.11"}, "needs --engine"),
        ({**DENSE, "engine": "vllm", "engine_version": "newest"}, "'newest' is not a version"),
        ({**DENSE, "engine": "llama.cpp", "engine_version": "b9000"}, "is not a version"),
        ({**DENSE, "engine": "llama.cpp", "engine_version": "2026-01"}, "no versions of different speed"),
        ({**DENSE, "acceptance": 0.8}, "needs --draft-tokens"),
        ({**DENSE, "draft_tokens": 3, "acceptance": 1.5}, "1.5 is not a share"),
        ({**DENSE, "prefix_hits": -0.1}, "-0.1 is not a share"),
    ],
)
def test_impossible_layout_is_refused_in_one_line(answer_size, options, part):
    with pytest.raises(InputError) as caught:
        answer_size(**options)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_tensor_and_pipeline_sizes_are_the_layout(answer_size):
    plan = answer_size(**DENSE, tensor_parallel=4, pipeline_parallel=2).plans[0]
    assert (plan.layout.tensor, plan.layout.pipeline, plan.devices) == (4, 2, 8)


def test_data_parallelism_of_a_dense_model_is_replicas(answer_size):
    plan = answer_size(**DENSE, tensor_parallel=2, data_parallel=4).plans[0]
    single = answer_size(**DENSE, tensor_parallel=2).plans[0]
    assert (plan.replicas, plan.devices) == (4, 8)
    assert plan.tokens_per_s == pytest.approx(4 * single.tokens_per_s)


def test_attention_data_parallelism_does_not_copy_a_latent_cache(answer_size):
    options = {**MIXTURE, "batch": "256", "context": "4000/1000", "devices": 8}
    copied = answer_size(**options, tensor_parallel=8).plans[0]
    shared = answer_size(**options, data_parallel=8, expert_parallel=8).plans[0]
    assert shared.layout.data == shared.layout.expert == 8
    assert shared.memory.kv_cache == pytest.approx(copied.memory.kv_cache / 8)


def test_wide_expert_parallelism_is_near_what_was_published(answer_size):
    """DeepSeek V3 on 72 H100 that only decode: 200,700 tokens/s (lmsys.org, 2025-05-05); once 570."""
    plan = answer_size(
        "deepseek-v3", precision="fp8", on="H100 SXM5 80GB", data_parallel=72, expert_parallel=72, batch="18432",
        context="2000/100", engine="sglang", engine_version="2025-05", disaggregated=True,
    ).plans[0]  # fmt: skip
    assert plan.is_feasible
    assert plan.tokens_per_s == pytest.approx(200_700, rel=0.45)


def test_newer_engines_decode_faster(answer_size):
    speeds = [
        answer_size(**DENSE, devices=8, engine="vllm", engine_version=version).plans[0].tokens_per_s
        for version in ("0.5.3", "2024-10", "0.11.0")
    ]
    newest = answer_size(**DENSE, devices=8, engine="vllm").plans[0].tokens_per_s
    assert speeds == sorted(speeds)
    assert newest > speeds[0]


def test_speculative_decoding_speeds_one_stream_up_by_less_than_its_tokens_per_step(answer_size):
    options = {**MIXTURE, "devices": 8}
    plain = answer_size(**options).plans[0].tokens_per_s_per_stream
    guessed = answer_size(**options, draft_tokens=3, acceptance=0.8).plans[0].tokens_per_s_per_stream
    assert 1.3 * plain < guessed < (1 + 0.8 + 0.64 + 0.512) * plain


def test_cached_prefixes_shorten_the_first_token(answer_size):
    options = {**DENSE, "devices": 8, "context": "8000/200"}
    cold = answer_size(**options).plans[0].time_to_first_token_s
    warm = answer_size(**options, prefix_hits=0.9).plans[0].time_to_first_token_s
    assert warm < 0.3 * cold


def test_plans_are_ranked_by_the_low_end_of_their_ranges(answer_size):
    from gpufleet.sizing.plans.ranking import build_plan_sort_key

    plan = answer_size(**DENSE, devices=8, tokens="1e9").plans[0]
    order = build_plan_sort_key("cost", lambda _: 0.0)
    assert order(plan)[3] == pytest.approx(plan.total_usd * plan.tokens_per_s / plan.tokens_per_s_low)
