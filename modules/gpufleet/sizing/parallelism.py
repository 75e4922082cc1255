"""Parallelism: the layouts of a workload on a number of devices that engines and heads allow, best first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpufleet.sizing.hardware import Hardware, ParallelLayout, Split
from gpufleet.sizing.model_engine import ModelEngine
from gpufleet.sizing.tensor_parallel import can_split_heads, list_tensor_parallel_sizes
from gpufleet.sizing.workload import Workload

PIPELINE_SIZES = (1, 2, 4, 8, 16)


def list_inference_layouts(
    workload: Workload, hardware: Hardware, devices: int, engine: ModelEngine
) -> Iterator[ParallelLayout]:
    """Yield layouts of one inference replica on at most so many devices; some engines can't use every number."""
    if devices == 1:
        yield ParallelLayout()
    elif engine.rule == "powers":
        yield _power_of_two_layout(workload, hardware, devices)
    elif engine.split == "layer":
        nodes = count_nodes_for_devices(hardware, devices)
        yield ParallelLayout(nodes=nodes, devices=devices, pipeline=devices, split="layer")
    else:
        yield from _tensor_parallel_layouts(workload, hardware, devices)


def list_training_layouts(
    workload: Workload, hardware: Hardware, devices: int, *, quick: bool = False
) -> Iterator[ParallelLayout]:
    """Yield layouts of a training run on at most so many devices, simplest first.

    Data parallelism over all devices comes first. With several nodes, hybrid sharding and one node alone follow: a
    slow network can make more nodes slower. Then come tensor and pipeline sizes, which may leave a few devices idle.
    ``quick`` tries only the smallest and the largest tensor size.
    """
    max_tensor = min(devices, hardware.devices_per_node)
    tensors = [size for size in (1, 2, 4, 8) if size <= max_tensor and can_split_heads(workload, size)]
    tensors = [tensors[0], tensors[-1]] if quick and len(tensors) > 1 else tensors
    for pipeline in PIPELINE_SIZES:
        for tensor in tensors if pipeline == 1 else tensors[-1:]:
            if tensor * pipeline <= devices and pipeline <= workload.model.layers:
                yield from _data_parallel_layouts(workload, hardware, devices, tensor, pipeline)


def _data_parallel_layouts(
    workload: Workload, hardware: Hardware, devices: int, tensor: int, pipeline: int
) -> Iterator[ParallelLayout]:
    """Yield the layouts of those sizes: sharded over all devices, within each node, and on one node only."""
    model_devices, per_node = tensor * pipeline, hardware.devices_per_node
    data = devices // model_devices
    yield _build_layout(hardware, tensor, pipeline, data)
    data_in_node = per_node // model_devices
    if devices <= per_node:
        return
    copies = devices // per_node
    hybrid = (
        workload.training.sharding in ("auto", "zero3") and data_in_node > 1 and per_node % model_devices == 0
    )
    if hybrid and pipeline == 1:
        yield replace(_build_layout(hardware, tensor, pipeline, data_in_node * copies), shards=data_in_node)
    if data > max(1, data_in_node):
        yield _build_layout(hardware, tensor, pipeline, max(1, data_in_node))


def _build_layout(hardware: Hardware, tensor: int, pipeline: int, data: int) -> ParallelLayout:
    devices = tensor * pipeline * data
    return ParallelLayout(
        count_nodes_for_devices(hardware, devices), devices, tensor=tensor, pipeline=pipeline, data=data
    )


def count_nodes_for_devices(hardware: Hardware, devices: int) -> int:
    """Return how many nodes have so many devices, rounded up."""
    return -(-devices // hardware.devices_per_node)


def _power_of_two_layout(workload: Workload, hardware: Hardware, devices: int) -> ParallelLayout:
    """Return the layout on the largest power of two that KV heads allow; other nodes are idle."""
    limit = min(devices, workload.model.kv_heads)
    node_count = 1 << (limit.bit_length() - 1)
    if node_count == 1:
        return ParallelLayout()
    return ParallelLayout(
        count_nodes_for_devices(hardware, node_count), node_count, tensor=node_count, split="tensor"
    )


def _tensor_parallel_layouts(
    workload: Workload, hardware: Hardware, devices: int
) -> Iterator[ParallelLayout]:
    """Yield tensor parallelism within a node and pipeline stages between nodes, as engines document it."""
    nodes = count_nodes_for_devices(hardware, devices)
    has_layout = False
    for tensor in list_tensor_parallel_sizes(workload, hardware, devices):
        pipeline = devices // tensor
        if devices % tensor or pipeline > workload.model.layers:
            continue
        has_layout = True
        expert = tensor if workload.model.experts else 1
        split: Split = "tensor" if tensor > 1 else "layer"
        yield ParallelLayout(nodes, devices, tensor=tensor, pipeline=pipeline, expert=expert, split=split)
    if not has_layout:  # more devices than layers, and heads that divide over none of them
        yield ParallelLayout()
