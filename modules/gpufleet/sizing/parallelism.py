"""Parallelism: the layouts of a workload on a number of devices that engines and heads allow, best first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpufleet.errors import InputError
from gpufleet.sizing.hardware import Hardware, ParallelLayout, Split
from gpufleet.sizing.model_engine import ModelEngine
from gpufleet.sizing.tensor_parallel import can_split_heads, list_tensor_parallel_sizes
from gpufleet.sizing.workload import Workload

PIPELINE_SIZES = (1, 2, 4, 8, 16)
MAX_LAYOUT_NODES = 1024  # of hardware without a limit


@dataclass(frozen=True)
class ParallelSizes:
    """Sizes that a user asks for; 0: not given."""

    tensor: int = 0
    pipeline: int = 0
    data: int = 0
    expert: int = 0

    @property
    def is_given(self) -> bool:
        """True if any size is."""
        return bool(self.tensor or self.pipeline or self.data or self.expert)

    @property
    def devices(self) -> int:
        """Return the devices of one copy of the layout."""
        return max(1, self.tensor) * max(1, self.pipeline) * max(1, self.data)


def build_requested_layout(
    workload: Workload, hardware: Hardware, engine: ModelEngine, sizes: ParallelSizes
) -> ParallelLayout:
    """Return the layout of those sizes.

    In inference, data parallelism with expert parallelism is that of attention: each group has its streams and its
    cache, and all devices hold a part of the experts. Without expert parallelism it copies the model, which is several
    replicas, not a layout.

    Raises:
        InputError: the model, the engine or the hardware cannot have that layout.
    """
    _refuse_impossible_sizes(workload, hardware, engine, sizes)
    tensor, pipeline, expert = max(1, sizes.tensor), max(1, sizes.pipeline), max(1, sizes.expert)
    data = max(1, sizes.data) if workload.is_training or expert > 1 else 1
    devices = tensor * pipeline * data
    split: Split = "none" if workload.is_training or devices == 1 else "tensor" if tensor > 1 else "layer"
    if engine.split != "layer" and split == "layer" and pipeline == 1:
        split = "none"
    return ParallelLayout(
        count_nodes_for_devices(hardware, devices), devices, tensor, pipeline, data, expert, split
    )


def _refuse_impossible_sizes(
    workload: Workload, hardware: Hardware, engine: ModelEngine, sizes: ParallelSizes
) -> None:
    model, tensor = workload.model, max(1, sizes.tensor)
    if tensor > 1 and engine.split == "layer":
        raise InputError(
            f"{engine.name} splits layers, not tensors",
            where="--tensor-parallel",
            remedy="leave it out, or give --engine vllm",
        )
    if not can_split_heads(workload, tensor):
        sizes_text = ", ".join(str(size) for size in range(1, 65) if can_split_heads(workload, size))
        raise InputError(
            f"{tensor} does not divide the {model.heads} heads and {model.kv_heads} KV heads of {model.name}",
            where="--tensor-parallel",
            remedy=f"give one of {sizes_text}",
        )
    if sizes.pipeline > model.layers:
        raise InputError(
            f"{sizes.pipeline} is more than the {model.layers} layers of {model.name}",
            where="--pipeline-parallel",
            remedy=f"give at most {model.layers}",
        )
    _refuse_impossible_experts(workload, sizes)
    most = (hardware.node_limit or MAX_LAYOUT_NODES) * hardware.devices_per_node
    if sizes.devices > most:
        raise InputError(
            f"the layout needs {sizes.devices} devices and {hardware.name} has {most}",
            where="--on",
            remedy="give smaller sizes",
        )


def _refuse_impossible_experts(workload: Workload, sizes: ParallelSizes) -> None:
    model, ranks = workload.model, sizes.tensor or 1
    if sizes.expert <= 1:
        return
    if model.experts is None:
        raise InputError(
            f"{model.name} has no experts", where="--expert-parallel", remedy="leave it out, or give 1"
        )
    if sizes.expert > model.experts.count:
        raise InputError(
            f"{sizes.expert} is more than the {model.experts.count} experts of {model.name}",
            where="--expert-parallel",
            remedy=f"give at most {model.experts.count}",
        )
    ranks *= max(1, sizes.data)
    is_whole_group = sizes.expert == ranks
    if ranks % sizes.expert or (sizes.data > 1 and not is_whole_group and not workload.is_training):
        allowed = f"{ranks}" if sizes.data > 1 else f"a divisor of {ranks}"
        raise InputError(
            f"{sizes.expert} does not fit the {ranks} devices of tensor and data parallelism that hold the experts",
            where="--expert-parallel",
            remedy=f"give {allowed}",
        )


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
        split: Split = "tensor" if tensor > 1 else "layer"
        yield ParallelLayout(nodes, devices, tensor=tensor, pipeline=pipeline, split=split)
    if not has_layout:  # more devices than layers, and heads that divide over none of them
        yield ParallelLayout()
