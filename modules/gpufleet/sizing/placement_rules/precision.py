"""Number formats that a device has no arithmetic for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, PlacementCase

BF16_FROM = 8.0  # CUDA compute capability
FP8_FROM = 8.9
FP8_WEIGHTS_FROM = 7.5
FP4 = ("fp4", "nvfp4", "mxfp4")
FP4_FROM = 10.0


def _compute_capability(case: PlacementCase) -> float | None:
    match = re.search(r"cc(\d+\.\d)", case.hardware.accelerator.architecture)
    return float(match[1]) if match else None


@PLACEMENT_RULES.register_rule(
    "no-bf16",
    reason="bfloat16 needs compute capability 8.0 (Ampere): T4 and V100 have fp16 only",
    source="vllm-project/vllm issues 1157 and 946",
    is_blocking=False,
)
def check_bf16_support(case: PlacementCase) -> Iterator[str]:
    capability = _compute_capability(case)
    if case.workload.precision == "bf16" and capability is not None and capability < BF16_FROM:
        yield f"{case.hardware.accelerator.name} (compute capability {capability:g}) has no bf16: use f16 instead"


@PLACEMENT_RULES.register_rule(
    "fp8-weights-only",
    reason="fp8 arithmetic needs compute capability 8.9 (Ada, Hopper): older cards unpack fp8 weights to 16 bits",
    source="vLLM documentation, FP8 W8A8 (v0.32.0): W8A16 with Marlin kernels from compute capability 7.5 on",
    is_blocking=False,
)
def check_fp8_support(case: PlacementCase) -> Iterator[str]:
    capability = _compute_capability(case)
    if case.workload.precision != "fp8" or capability is None or capability >= FP8_FROM:
        return
    name = case.hardware.accelerator.name
    if capability >= FP8_WEIGHTS_FROM:
        yield f"{name} (compute capability {capability:g}) has no fp8 arithmetic: only weights are fp8, sums 16-bit"
    else:
        yield f"{name} (compute capability {capability:g}) has no fp8, not for weights either"


@PLACEMENT_RULES.register_rule(
    "no-fp8",
    reason="without an fp8 rate the accelerator computes in another format",
    source="accelerators.csv, column fp8_tflops_dense",
    is_blocking=False,
)
def check_known_fp8_rate(case: PlacementCase) -> Iterator[str]:
    accelerator = case.hardware.accelerator
    if (
        case.workload.precision == "fp8"
        and _compute_capability(case) is None
        and accelerator.fp8_tflops_dense is None
    ):
        yield f"no fp8 rate of {accelerator.name} is known: its 16-bit rate is used"


@PLACEMENT_RULES.register_rule(
    "no-fp4",
    reason="4-bit floats are arithmetic on Blackwell and MI350 only: elsewhere weights are unpacked",
    source="accelerators.csv, column fp4_tflops_dense",
    is_blocking=False,
)
def check_fp4_support(case: PlacementCase) -> Iterator[str]:
    capability = _compute_capability(case)
    accelerator = case.hardware.accelerator
    has_no_fp4 = accelerator.fp4_tflops_dense is None and (capability is None or capability < FP4_FROM)
    if case.workload.precision in FP4 and has_no_fp4:
        yield f"{accelerator.name} has no 4-bit floating-point arithmetic: weights alone are 4-bit"
