"""Attention heads over tensor-parallel devices."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.sizing.legality.rule import Case, rule
from gpufleet.sizing.tensor_parallel import degrees, divides


@rule(
    "heads-divide",
    reason="tensor parallelism gives each device whole attention heads",
    source="vllm-project/vllm issues 2652, 596, 11797: heads must be divisible by the tensor-parallel size",
)
def heads_divide(case: Case) -> Iterator[str]:
    within = min(case.devices, case.hardware.devices_per_node)
    if case.engine.rule != "heads" or within == 1 or divides(case.workload, within) or case.workload.trains:
        return
    model = case.workload.model
    allowed = [str(size) for size in reversed(degrees(case.workload, case.hardware, within))]
    yield (
        f"{model.heads} attention heads and {model.kv_heads} KV heads of {model.name} do not divide over {within} "
        f"devices: tensor-parallel degrees here are {', '.join(allowed)}"
    )


@rule(
    "kv-heads-replicated",
    reason="with more tensor-parallel devices than KV heads, each device holds a whole copy of a head",
    source="vllm/config/model.py, get_num_kv_heads: KV heads are replicated so that each GPU has at least one",
)
def kv_heads_replicated(case: Case) -> Iterator[str]:
    model, tensor = case.workload.model, case.layout.tensor
    if (
        case.engine.rule == "heads"
        and not case.workload.trains
        and tensor > model.kv_heads
        and not model.latent
    ):
        copies = tensor // model.kv_heads
        yield f"{model.name} has {model.kv_heads} KV heads: on {tensor} devices its cache is held {copies} times"
