"""Attention heads over tensor-parallel devices."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, PlacementCase
from gpufleet.sizing.tensor_parallel import (
    can_split_heads,
    has_rdma_between_devices,
    list_tensor_parallel_sizes,
)


@PLACEMENT_RULES.register_rule(
    "heads-divide",
    reason="tensor parallelism divides the model by complete attention heads",
    source="vllm-project/vllm issues 2652, 596, 11797: heads must be divisible by the tensor-parallel size",
    is_blocking=False,
)
def check_head_divisibility(case: PlacementCase) -> Iterator[str]:
    devices = case.devices
    if not has_rdma_between_devices(case.hardware):
        devices = min(devices, case.hardware.devices_per_node)
    if (
        case.engine.rule != "heads"
        or devices == 1
        or can_split_heads(case.workload, devices)
        or case.workload.is_training
    ):
        return
    model = case.workload.model
    allowed = [
        str(size) for size in reversed(list_tensor_parallel_sizes(case.workload, case.hardware, devices))
    ]
    yield (
        f"{model.heads} attention heads and {model.kv_heads} KV heads of {model.name} do not divide over {devices} "
        f"devices: tensor-parallel degrees here are {', '.join(allowed)}"
    )


@PLACEMENT_RULES.register_rule(
    "kv-heads-replicated",
    reason="with more tensor-parallel devices than KV heads, each device stores a full copy of a head",
    source="vllm/config/model.py, get_num_kv_heads: KV heads are replicated so that each GPU has at least one",
    is_blocking=False,
)
def check_kv_head_replication(case: PlacementCase) -> Iterator[str]:
    model, tensor = case.workload.model, case.layout.tensor
    if (
        case.engine.rule == "heads"
        and not case.workload.is_training
        and tensor > model.kv_heads
        and not model.latent
    ):
        copies = tensor // model.kv_heads
        yield f"{model.name} has {model.kv_heads} KV heads: on {tensor} devices its KV cache is stored {copies} times"
