"""Boards without a usable GPU, and cards that current software no longer supports."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, PlacementCase


@PLACEMENT_RULES.register_rule(
    "no-rocm",
    reason="gfx803 (Polaris) is in no current ROCm table: Vulkan is what still runs on it",
    source="rocm.docs.amd.com gpu-specs: architectures listed; accelerators.csv row Radeon RX 460",
    is_blocking=False,
)
def check_unsupported_gfx803(case: PlacementCase) -> Iterator[str]:
    accelerator = case.hardware.accelerator
    if "gfx803" in accelerator.architecture:
        name = f"{accelerator.name} ({accelerator.memory_gib:g} GB, gfx803)"
        yield f"{name} is no longer supported by ROCm: only engines with Vulkan run on it"


@PLACEMENT_RULES.register_rule(
    "board-without-gpu",
    reason="the GPU of a Raspberry Pi cannot run language models: its CPU computes",
    source="accelerators.csv row Compute Module 5 / Pi 5",
    is_blocking=False,
)
def check_cpu_only_training(case: PlacementCase) -> Iterator[str]:
    accelerator = case.hardware.accelerator
    if accelerator.kind == "sbc" and accelerator.stacks == ("cpu",) and case.workload.is_training:
        yield f"{accelerator.name} would train on its CPU only ({accelerator.fp32_tflops or 0:g} TFLOPS)"
