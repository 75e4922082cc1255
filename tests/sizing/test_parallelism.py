"""Layouts: consistent sizes, head divisibility, device counts of engines."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet import catalog
from gpufleet.sizing.hardware_resolver import resolve_hardware
from gpufleet.sizing.model_engine import choose_model_engine
from gpufleet.sizing.parallelism import count_nodes_for_devices, list_inference_layouts, list_training_layouts
from gpufleet.sizing.plans.placement import (
    find_smallest_placement,
    list_device_counts,
    place_workload_on_devices,
)
from gpufleet.sizing.tensor_parallel import can_split_heads, list_tensor_parallel_sizes
from gpufleet.sizing.workload import Workload

MODELS = ["qwen2-0.5b", "qwen2.5-7b", "llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "gemma-2-9b"]
PARTS = [
    "H100 SXM5 80GB",
    "GeForce RTX 4090",
    "M2 (10)",
    "Compute Module 5 / Pi 5",
    "TPU v5e",
    "Instinct MI300X",
]


def _list_layouts(workload, hardware, devices):
    engine = choose_model_engine(hardware, workload, count_nodes_for_devices(hardware, devices))
    return list_inference_layouts(workload, hardware, devices, engine)


cases = st.tuples(st.sampled_from(MODELS), st.sampled_from(PARTS), st.integers(1, 64))


@given(cases)
@settings(max_examples=120)
def test_inference_layout_sizes_are_consistent(case):
    model, part, devices = case
    workload, hardware = Workload(catalog.get_model(model), precision="f16"), resolve_hardware(part).hardware
    for layout in _list_layouts(workload, hardware, devices):
        assert layout.tensor * layout.pipeline * layout.data == layout.devices <= devices
        assert layout.nodes == count_nodes_for_devices(hardware, layout.devices)
        assert layout.split == ("none" if layout.devices == 1 else layout.split)
        assert layout.pipeline <= workload.model.layers or layout.split == "layer"


@given(cases)
@settings(max_examples=120)
def test_tensor_parallel_engines_divide_heads(case):
    model, part, devices = case
    workload = Workload(catalog.get_model(model), precision="f16", engine="vllm")
    hardware = resolve_hardware(part).hardware
    for layout in _list_layouts(workload, hardware, devices):
        assert can_split_heads(workload, layout.tensor)
        assert layout.tensor <= hardware.devices_per_node


@given(cases)
@settings(max_examples=60)
def test_distributed_llama_uses_powers_of_two_up_to_kv_heads(case):
    model, _, devices = case
    workload = Workload(catalog.get_model(model), precision="q4_0", engine="distributed-llama")
    (layout,) = _list_layouts(workload, resolve_hardware("Compute Module 5 / Pi 5").hardware, devices)
    assert layout.tensor & (layout.tensor - 1) == 0
    assert layout.tensor <= min(devices, workload.model.kv_heads)


@given(cases)
@settings(max_examples=60)
def test_training_layouts_are_consistent_and_start_with_data_parallelism(case):
    model, part, devices = case
    workload, hardware = (
        Workload(catalog.get_model(model), task="full_finetune"),
        resolve_hardware(part).hardware,
    )
    layouts = list(list_training_layouts(workload, hardware, devices))
    assert (layouts[0].data, layouts[0].devices) == (devices, devices)
    for layout in layouts:
        assert layout.tensor * layout.pipeline * layout.data == layout.devices <= devices
        assert layout.nodes == count_nodes_for_devices(hardware, layout.devices)
        assert layout.shards == 0 or (layout.data % layout.shards == 0 and layout.shards > 1)
        assert layout.shards * layout.tensor in (0, hardware.devices_per_node)


@pytest.mark.parametrize(
    ("model", "tensor", "can"),
    [("qwen2.5-7b", 8, False), ("qwen2.5-7b", 7, False), ("qwen2.5-7b", 4, True), ("llama-3.1-70b", 16, True),
     ("llama-3.1-8b", 3, False), ("qwen2-0.5b", 14, True), ("llama-3.1-8b", 32, True)],
)  # fmt: skip
def test_head_counts_limit_tensor_parallelism(model, tensor, can, workload):
    assert can_split_heads(workload(model), tensor) is can


def test_tensor_parallel_sizes_of_qwen_on_eight(workload, hardware):
    assert list_tensor_parallel_sizes(workload("qwen2.5-7b"), hardware("H100 SXM5 80GB"), 8) == [4, 2, 1]


def test_two_nodes_use_pipeline_parallelism_between_and_tensor_parallelism_within(workload, hardware):
    layout = next(_list_layouts(workload("llama-3.1-405b", engine="vllm"), hardware("H100 SXM5 80GB"), 16))
    assert (layout.tensor, layout.pipeline, layout.nodes) == (8, 2, 2)


def test_smallest_placement_fits_and_half_of_it_does_not(workload, hardware):
    requested, kind = workload("llama-3.1-70b", precision="bf16"), hardware("H100 SXM5 80GB")
    placement = find_smallest_placement(requested, kind)
    assert placement.fits_in_memory
    assert placement.layout.devices == 2
    assert not place_workload_on_devices(requested, kind, 1).fits_in_memory


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("task", ["inference", "lora", "full_finetune"])
def test_smallest_placement_is_the_first_that_fits(model, part, task, workload, hardware):
    requested, kind = workload(model, task=task, precision="bf16"), hardware(part)
    placement = find_smallest_placement(requested, kind)
    tried = [
        size for size in list_device_counts(kind) if placement is None or size < placement.layout.devices
    ][:6]
    assert not any(place_workload_on_devices(requested, kind, size).fits_in_memory for size in tried)


def test_adapters_are_replicated_while_they_fit_and_sharded_otherwise(workload, hardware):
    small = place_workload_on_devices(
        workload("llama-3.1-8b", task="lora", training=_auto()), hardware("H100 SXM5 80GB"), 8
    )
    large = place_workload_on_devices(
        workload("llama-3.1-70b", task="lora", training=_auto()), hardware("H100 SXM5 80GB"), 8
    )
    assert (small.workload.training.sharding, large.workload.training.sharding) == ("none", "zero3")


def _auto():
    from gpufleet.sizing.workload import TrainingSettings

    return TrainingSettings(sharding="auto", recompute="auto")
