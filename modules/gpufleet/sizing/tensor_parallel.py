"""Tensor parallelism: over how many devices the attention heads of a model divide."""

from __future__ import annotations

from gpufleet.sizing.hardware import Hardware
from gpufleet.sizing.workload import Workload


def can_split_heads(workload: Workload, tensor_parallel_size: int) -> bool:
    """Return whether the heads divide over ``tensor`` devices: query heads evenly, KV heads evenly or as copies."""
    model = workload.model
    can_split_kv_heads = (
        model.kv_heads % tensor_parallel_size == 0 or tensor_parallel_size % model.kv_heads == 0
    )
    return model.heads % tensor_parallel_size == 0 and can_split_kv_heads


def list_tensor_parallel_sizes(workload: Workload, hardware: Hardware, max_size: int) -> list[int]:
    """Return every tensor-parallel size that heads and one node allow, up to ``max_size``, largest first."""
    limit = min(max_size, hardware.devices_per_node)
    return [size for size in range(limit, 0, -1) if can_split_heads(workload, size)]
