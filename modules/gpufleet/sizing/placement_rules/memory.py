"""Memory that is only a sum over nodes or cards."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, PlacementCase


@PLACEMENT_RULES.register_rule(
    "summed-memory",
    reason="memory of several nodes is a sum of parts: no device reads another's at memory speed",
    source="10 CM5 (160 GB) ran Llama 70B at 0.85 tok/s, one M3 Ultra at 14.1 (geerlingguy, measured.csv)",
    is_blocking=False,
)
def check_memory_over_several_nodes(case: PlacementCase) -> Iterator[str]:
    accelerator, nodes = case.hardware.accelerator, case.layout.nodes
    if nodes > 1 and case.hardware.unified:
        total = accelerator.memory_gib * case.layout.devices
        yield (
            f"{total:g} GB over {nodes} nodes is {nodes} times {accelerator.memory_gib:g} GB, "
            f"not one memory of {total:g} GB: "
            "layers or parts of them are on different nodes, and every token crosses the network"
        )


@PLACEMENT_RULES.register_rule(
    "memory-not-merged",
    reason="the memories of several cards are not merged, even with NVLink: what is not sharded is stored on each",
    source="hiyouga/LLaMA-Factory issue 4559 (4 x 24 GB taken for 96 GB)",
    is_blocking=False,
)
def check_unsharded_model_copies(case: PlacementCase) -> Iterator[str]:
    training = case.workload.training
    copies = case.workload.is_training and training.sharding == "none" and case.layout.data > 1
    if copies:
        gib = case.hardware.accelerator.memory_gib
        yield f"without sharding each of {case.layout.data} devices stores the full model in its {gib:g} GB"
