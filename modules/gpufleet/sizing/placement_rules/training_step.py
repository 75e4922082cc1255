"""Training steps: idle devices, and steps with too many tokens."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, PlacementCase

MAX_STEP_TOKENS = 16 * 1024**2  # tokens


@PLACEMENT_RULES.register_rule(
    "devices-idle",
    reason="a slow network or an indivisible number can make more devices slower than fewer",
    source="sizing's estimate of the communication of layouts",
    is_blocking=False,
)
def check_idle_devices(case: PlacementCase) -> Iterator[str]:
    used = case.layout.devices
    if case.workload.is_training and used < case.devices:
        yield f"the fastest layout uses {used} of {case.devices} devices; {case.devices - used} are idle"


@PLACEMENT_RULES.register_rule(
    "global-batch-large",
    reason="beyond some batch size, more tokens per step help less: large pre-training runs limit the batch",
    source="Llama 3.1 405B: 16 M tokens a step on 8,192 and 16,384 GPUs (P. Balaji, SC24 slide, as noted at "
    "glennklockwood.com/garden/llama-3.1, read 2026-11-21)",
    is_blocking=False,
)
def check_global_batch_size(case: PlacementCase) -> Iterator[str]:
    work, layout = case.workload, case.layout
    if work.task != "pretrain":
        return
    sequences = max(work.batch, layout.pipeline)  # every pipeline stage needs a micro-batch
    tokens = sequences * work.context_tokens * layout.data
    if tokens > MAX_STEP_TOKENS:
        yield (
            f"{layout.data:,} data-parallel devices x {sequences} x {work.context_tokens:,} tokens are "
            f"{tokens / 1e6:,.0f} M tokens a step: more than the 16 M that Llama 3.1 405B was trained with; "
            "take fewer devices, or a smaller --batch"
        )
