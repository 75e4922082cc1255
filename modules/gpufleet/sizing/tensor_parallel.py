"""Tensor parallelism: over how many devices the attention heads of a model divide."""

from __future__ import annotations

from gpufleet.sizing.hardware import Hardware
from gpufleet.sizing.workload import Workload

RDMA_NETWORKS = ("ConnectX-7", "Thunderbolt 5", "InfiniBand")


def can_split_heads(workload: Workload, tensor_parallel_size: int) -> bool:
    """Return whether the heads divide over ``tensor`` devices: query heads evenly, KV heads evenly or as copies."""
    model = workload.model
    can_split_kv_heads = (
        model.kv_heads % tensor_parallel_size == 0 or tensor_parallel_size % model.kv_heads == 0
    )
    return model.heads % tensor_parallel_size == 0 and can_split_kv_heads


def has_rdma_between_devices(hardware: Hardware) -> bool:
    """Return whether each node is one device, and their network lets one read the other's memory."""
    return hardware.devices_per_node == 1 and hardware.network in RDMA_NETWORKS


def list_tensor_parallel_sizes(workload: Workload, hardware: Hardware, max_size: int) -> list[int]:
    """Return every tensor-parallel size that heads and links allow, up to ``max_size``, largest first.

    A group stays within a node, or spans nodes of one device that are joined by RDMA: GB10 over ConnectX-7, Macs over
    Thunderbolt 5.
    """
    limit = max_size if has_rdma_between_devices(hardware) else min(max_size, hardware.devices_per_node)
    return [size for size in range(limit, 0, -1) if can_split_heads(workload, size)]
