"""Interconnect between devices: peer access, NVLink, slow networks."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, PlacementCase
from gpufleet.sizing.tensor_parallel import has_rdma_between_devices

SLOW_GB_S = 12.5  # assumption, 100 Gbit/s: the slowest fabric that is common for distributed training


def _has_several_devices_per_node(case: PlacementCase) -> bool:
    return min(case.layout.devices, case.hardware.devices_per_node) > 1


@PLACEMENT_RULES.register_rule(
    "no-peer-access",
    reason="stock GeForce drivers do not let cards read each other's memory: traffic goes through the host",
    source="NVIDIA/nccl issue 1127; tinygrad/open-gpu-kernel-modules issues 17 and 28",
    is_blocking=False,
)
def check_peer_access(case: PlacementCase) -> Iterator[str]:
    if not case.hardware.peer_access and _has_several_devices_per_node(case) and not case.hardware.unified:
        yield f"{case.hardware.accelerator.name} cards have no peer access: their traffic goes through the host"


@PLACEMENT_RULES.register_rule(
    "no-nvlink",
    reason="Ada and later GeForce and workstation cards have no NVLink; NVLink never merges memories",
    source="tweaktown.com, 2022-09-25, on Ada without NVLink; accelerators.csv, column link",
    is_blocking=False,
)
def check_missing_nvlink(case: PlacementCase) -> Iterator[str]:
    accelerator = case.hardware.accelerator
    cards = accelerator.vendor == "NVIDIA" and accelerator.kind in ("gpu_gaming", "gpu_workstation")
    if cards and not accelerator.link and _has_several_devices_per_node(case):
        link = case.hardware.link or "their slots"
        yield f"{accelerator.name} has no NVLink: {case.layout.devices} cards communicate over {link}"


@PLACEMENT_RULES.register_rule(
    "slow-link-tensor",
    reason="tensor parallelism exchanges every layer's result twice: a slow link then is the limit",
    source="docs.vllm.ai distributed serving (v0.8.3): tensor parallel within a node, pipeline parallel between nodes",
    is_blocking=False,
)
def check_tensor_parallel_network_speed(case: PlacementCase) -> Iterator[str]:
    spans_nodes = case.layout.tensor > case.hardware.devices_per_node
    if spans_nodes and not has_rdma_between_devices(case.hardware) and case.hardware.network_gb_s < SLOW_GB_S:
        gbit = case.hardware.network_gb_s * 8
        yield f"tensor parallelism over {case.layout.nodes} nodes joined with {gbit:g} Gbit/s: the network is the limit"


@PLACEMENT_RULES.register_rule(
    "slow-link-training",
    reason="training sums gradients over all nodes at every step",
    source="stas00/ml-engineering network/README.md, why inter-node network speed is of importance",
    is_blocking=False,
)
def check_training_network_speed(case: PlacementCase) -> Iterator[str]:
    is_slow = case.hardware.network_gb_s * case.hardware.devices_per_node < SLOW_GB_S
    if case.workload.is_training and case.layout.nodes > 1 and is_slow:
        gbit = case.hardware.network_gb_s * case.hardware.devices_per_node * 8
        yield f"{case.layout.nodes} nodes with {gbit:g} Gbit/s each sum their gradients over it at every step"
