"""Generations of engines, collectives and experts: the parts of a served step."""

from __future__ import annotations

import pytest

from gpufleet import catalog
from gpufleet.sizing import ParallelLayout, Workload
from gpufleet.sizing.node_hardware import build_accelerator_hardware
from gpufleet.sizing.speed import expert_load
from gpufleet.sizing.speed.engine_generation import find_engine_generation
from gpufleet.sizing.speed.interconnect import InterconnectLink
from gpufleet.sizing.speed.interval import classify_regime
from gpufleet.sizing.speed.prediction import build_replica


@pytest.fixture
def mixture():
    """Return a replica of DeepSeek V3 on H100 with that layout."""

    def build(**sizes):
        hardware = build_accelerator_hardware(catalog.get_accelerator("H100 SXM5 80GB"))
        workload = Workload(catalog.get_model("DeepSeek-V3"), precision="fp8", engine="sglang")
        return build_replica(workload, ParallelLayout(devices=8, **sizes), hardware)

    return build


@pytest.mark.parametrize(
    ("engine", "version", "generation"),
    [
        ("vllm", "0.5.3", "2023"),
        ("vllm", "v0.6.3.post1", "2024"),
        ("vllm", "0.11.1", "2025"),
        ("vllm", "2025-08", "2025"),
        ("vllm", "2025-08-01", "2025"),
        ("vllm", "2025", "2025"),
        ("vllm", "2022", "2023"),
        ("vllm", "", "2026"),
        ("sglang", "0.4.6", "2025"),
        ("llama.cpp", "", ""),
    ],
)
def test_generation_follows_version_or_date(engine, version, generation):
    assert find_engine_generation(engine, version) == generation


def test_small_payloads_take_one_step_and_large_ones_two():
    link = InterconnectLink("switched", 450.0)
    small, large = (link.fused_all_reduce_seconds(8, size, 8e-6, 0.7) for size in (1e3, 1e8))
    assert small == pytest.approx(8e-6, rel=0.1)
    assert large == pytest.approx(16e-6 + 1.75e8 / 315e9, rel=0.01)


def test_one_token_reads_its_experts_and_many_read_all(mixture):
    replica = mixture(tensor=8)
    assert expert_load.read_share(replica, 1) == pytest.approx(8 / 256 / 8)
    assert expert_load.read_share(replica, 4096) == pytest.approx(1 / 8)


def test_busiest_rank_reads_more_than_the_average_but_no_more_than_it_holds(mixture):
    spread, shared = mixture(tensor=8), mixture(tensor=8, expert=8)
    assert expert_load.read_share(shared, 8) > 1.1 * expert_load.read_share(spread, 8)
    assert expert_load.read_share(shared, 4096) == pytest.approx(1 / 8)
    assert expert_load.load_imbalance(shared, 8) > expert_load.load_imbalance(shared, 1024) > 1.0
    assert expert_load.load_imbalance(spread, 8) == 1.0


def test_tokens_travel_to_experts_only_under_attention_data_parallelism(mixture):
    assert mixture(tensor=8, expert=8).expert_exchange_seconds(256) == 0.0
    assert mixture(data=8, expert=8).expert_exchange_seconds(256) > 0.0


@pytest.mark.parametrize(
    ("streams", "devices", "regime"),
    [
        (1, 1, "nvidia one stream, one device"),
        (8, 8, "nvidia few streams, several devices"),
        (64, 8, "nvidia many streams, mixture"),
    ],
)
def test_regime_of_a_server_is_its_streams_and_devices(streams, devices, regime):
    answer = classify_regime("nvidia-hbm", is_server=True, streams=streams, devices=devices, has_experts=True)
    assert answer == ("serving", regime)
    assert classify_regime("apple", is_server=False, streams=1, devices=1, has_experts=True)[1] == "apple"
