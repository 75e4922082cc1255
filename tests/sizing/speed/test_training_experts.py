"""Training of mixtures: where tokens go, what a layer costs, and published runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet import catalog
from gpufleet.sizing.hardware import ParallelLayout
from gpufleet.sizing.node_hardware import build_accelerator_hardware
from gpufleet.sizing.speed import training, training_experts
from gpufleet.sizing.speed.prediction import build_replica, training_tokens_per_s
from gpufleet.sizing.workload import TrainingSettings, Workload


def build(model, part, *, batch=1, tokens=4096, precision="bf16", version="", accumulation=8, **layout):
    hardware = build_accelerator_hardware(catalog.get_accelerator(part))
    work = Workload(
        catalog.get_model(model), "pretrain", precision, tokens, 0, batch, engine="megatron",
        engine_version=version, training=TrainingSettings(recompute="none", accumulation=accumulation),
    )  # fmt: skip
    devices = layout.get("tensor", 1) * layout.get("pipeline", 1) * layout["data"]
    nodes = -(-devices // hardware.devices_per_node)
    return build_replica(work, ParallelLayout(nodes, devices, **layout), hardware)


def rate_per_device(replica):
    layout = replica.layout
    return training_tokens_per_s(replica) / (layout.tensor * layout.pipeline * layout.data)


def experts_of(replica):
    return training.estimate_training_step_time(replica).experts


def test_dense_model_has_no_expert_time():
    assert experts_of(build("llama-3.1-8b", "H100 SXM5 80GB", data=8)) is None


def test_routed_operations_are_part_of_the_model_operations():
    """DeepSeek V3: 58 layers, eight of 256 experts of 7,168 x 2,048 and three matrices."""
    replica = build("deepseek-v3", "H100 SXM5 80GB", data=64, expert=64)
    assert training_experts.count_routed_weights(replica) == 58 * 256 * 3 * 7168 * 2048
    assert training_experts.count_routed_operations(replica) == 2 * 58 * 8 * 3 * 7168 * 2048


def test_dispatch_over_the_network_costs_what_it_carries():
    """gpt-oss-120b on 64 B200 with 64 ranks reached 8,047 tokens/s, with eight ranks 13,568 (Megatron-Bridge)."""
    wide, near = (build("gpt-oss-120b", "B200", batch=4, data=64, expert=ranks) for ranks in (64, 8))
    assert experts_of(wide).exchange > 10 * experts_of(near).exchange
    assert rate_per_device(near) > 1.2 * rate_per_device(wide)


def test_experts_in_one_nvlink_domain_are_cheap_to_reach():
    rack, servers = (build("deepseek-v3", part, data=64, expert=64) for part in ("GB200 (per GPU)", "B200"))
    assert experts_of(rack).exchange < experts_of(servers).exchange / 5


@given(places=st.integers(1, 512), choices=st.integers(1, 32))
def test_a_token_goes_to_no_more_places_than_it_has_experts(places, choices):
    reached = training_experts._expected_places(places, choices)
    assert 1 - 1e-9 <= reached <= min(places, choices) + 1e-9


def test_gradients_of_few_micro_batches_are_not_hidden():
    few, many = (
        experts_of(build("gpt-oss-120b", "B200", batch=4, data=64, expert=8, accumulation=n)) for n in (2, 64)
    )
    assert few.reduction > 10 * many.reduction
    assert experts_of(build("gpt-oss-120b", "B200", batch=4, data=8, expert=8)).reduction == 0


def test_more_tokens_for_each_expert_use_the_device_better():
    rates = [rate_per_device(build("qwen3-30b-a3b", "B200", batch=n, data=8, expert=8)) for n in (1, 2, 4, 8)]
    assert rates == sorted(rates)
    assert rates[-1] > 1.5 * rates[0]


@pytest.mark.parametrize(
    ("version", "month"),
    [
        ("26.04.01", "2026-04"),
        ("25.11", "2025-11"),
        ("2026-06-30", "2026-06"),
        ("2026", ""),
        ("", ""),
        ("x.y", ""),
    ],
)
def test_month_of_a_version(version, month):
    assert training_experts.version_month(version) == month


def test_graphs_of_2026_launch_a_layer_at_once():
    old, new, unnamed = (
        experts_of(build("qwen3-30b-a3b", "B200", data=8, expert=8, version=v))
        for v in ("26.04", "26.06", "")
    )
    assert new.launch == unnamed.launch < old.launch


def test_layout_without_expert_parallel_takes_the_fastest():
    replica = build("qwen3-30b-a3b", "H100 SXM5 80GB", data=16)
    chosen = training_experts.choose_expert_parallel(replica, 4e14)
    rates = {
        size: rate_per_device(replace(replica, layout=replace(replica.layout, expert=size)))
        for size in (2, 4, 8, 16)
    }
    assert rate_per_device(replica) >= 0.95 * max(rates.values())
    assert 128 % chosen == 0


@pytest.mark.parametrize(
    ("model", "part", "knobs", "tokens_per_s"),
    [
        ("deepseek-v3", "H800", {"precision": "fp8", "data": 128, "pipeline": 16, "expert": 64, "accumulation": 120,
         "version": "2024-12"}, 1543),  # technical report: 180K hours per trillion tokens
        ("deepseek-v3", "GB200 (per GPU)", {"precision": "fp8", "data": 64, "pipeline": 4, "expert": 64,
         "accumulation": 64, "version": "26.04"}, 4256),
        ("qwen3-30b-a3b", "B200", {"precision": "fp8", "batch": 4, "data": 8, "expert": 8, "accumulation": 16,
         "version": "26.04"}, 27136),
        ("gpt-oss-120b", "H100 SXM5 80GB", {"data": 16, "pipeline": 4, "expert": 8, "accumulation": 80,
         "version": "26.04"}, 5824),
    ],
)  # fmt: skip
def test_published_runs_are_predicted(model, part, knobs, tokens_per_s):
    assert rate_per_device(build(model, part, **knobs)) == pytest.approx(tokens_per_s, rel=0.3)
