"""What PyTorch on Apple silicon can't do, with the versions that changed it."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, PlacementCase


def _is_apple(case: PlacementCase) -> bool:
    return case.hardware.accelerator.kind == "apple"


@PLACEMENT_RULES.register_rule(
    "mps-fp16-trainer",
    reason="fp16: True was refused on MPS by Transformers 4; version 5 takes it, and bf16 from macOS 14 on",
    source="huggingface/transformers issue 32648, accelerate 3718; transformers v5.10.2 docs, Apple Silicon",
    is_blocking=False,
)
def check_mps_fp16(case: PlacementCase) -> Iterator[str]:
    if _is_apple(case) and case.workload.is_training and case.workload.precision in ("f16", "fp16"):
        yield "fp16 mixed precision on MPS raises ValueError in Transformers 4: use version 5, or bf16 on macOS 14"


@PLACEMENT_RULES.register_rule(
    "mps-bitsandbytes",
    reason="QLoRA's NF4 and 8-bit optimisers come from bitsandbytes, which had no backend for Apple before 0.50",
    source="bitsandbytes documentation, installation: v0.48.1 (no Apple), v0.50.0 (Apple Silicon)",
    is_blocking=False,
)
def check_mps_bitsandbytes(case: PlacementCase) -> Iterator[str]:
    eight_bit = "8bit" in case.workload.training.optimizer
    needs = case.workload.task == "qlora" or case.workload.precision == "nf4" or eight_bit
    if _is_apple(case) and needs:
        yield "bitsandbytes (NF4, 8-bit optimisers) runs on Apple silicon from 0.50 on only; older ones need CUDA"


@PLACEMENT_RULES.register_rule(
    "mps-one-device",
    reason="the MPS backend has no distributed training",
    source="huggingface transformers documentation, Apple Silicon (v4.49): mps doesn't support distributed training",
    is_blocking=False,
)
def check_mps_device_count(case: PlacementCase) -> Iterator[str]:
    if _is_apple(case) and case.workload.is_training and case.layout.devices > 1:
        yield f"PyTorch's MPS backend does not train over {case.layout.devices} machines"
