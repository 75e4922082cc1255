"""The memory estimate of a workload in a layout on hardware, and whether it fits."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from gpufleet.catalog import Accelerator
from gpufleet.sizing.hardware import Hardware, ParallelLayout
from gpufleet.sizing.memory.constants import cache_with_constants, load_memory_constants
from gpufleet.sizing.memory.inference import (
    EngineMemoryProfile,
    choose_engine_memory_profile,
    estimate_inference_memory,
)
from gpufleet.sizing.memory.model_state import has_master_copy
from gpufleet.sizing.memory.result import GIB, DeviceMemoryUse, MemoryEstimate
from gpufleet.sizing.memory.training import estimate_training_memory
from gpufleet.sizing.workload import Recompute, TrainingSettings, Workload

COMPONENTS = ("weights", "gradients", "optimizer", "activations", "kv_cache", "overhead")
RecomputeStep = tuple[Recompute, bool]  # activation recomputation, and whether the loss is chunked
FINE_TUNING_STEPS: tuple[RecomputeStep, ...] = (("none", False), ("full", True))
PRETRAINING_STEPS: tuple[RecomputeStep, ...] = (("selective", False), ("full", False), ("full", True))


def estimate_memory(workload: Workload, layout: ParallelLayout, hardware: Hardware) -> MemoryEstimate:
    """Return the memory estimate; automatic recomputation is the least that fits."""
    return choose_recompute_and_estimate_memory(workload, layout, hardware)[1]


def choose_recompute_and_estimate_memory(
    workload: Workload, layout: ParallelLayout, hardware: Hardware
) -> tuple[Workload, MemoryEstimate]:
    """Return the workload with its recomputation chosen, and its memory estimate."""
    if not workload.is_training:
        engine = choose_engine_memory_profile(workload, hardware.accelerator)
        share = estimate_inference_memory(workload, layout, hardware, engine)
        return workload, _summarize(workload, share, layout, hardware, engine)
    chosen_workload, share = _choose_recompute(workload, layout, hardware)
    return chosen_workload, _summarize(chosen_workload, share, layout, hardware)


def choose_recompute(workload: Workload, layout: ParallelLayout, hardware: Hardware) -> Workload:
    """Return the workload with an automatic ``recompute`` replaced by the least that fits.

    Fine-tuning that must save memory uses full recomputation with a chunked loss. Pre-training starts with
    selective recomputation and unchunked logits, the default of its libraries.
    """
    if not workload.is_training or workload.training.recompute != "auto":
        return workload
    return _choose_recompute(workload, layout, hardware)[0]


def _choose_recompute(
    workload: Workload, layout: ParallelLayout, hardware: Hardware
) -> tuple[Workload, DeviceMemoryUse]:
    if workload.training.recompute != "auto":
        return workload, _estimate_training_memory_once(workload, layout)
    available = _available_bytes(hardware, layout)
    ladder = PRETRAINING_STEPS if workload.task == "pretrain" else FINE_TUNING_STEPS
    for recompute, chunked in ladder:
        variant = _vary_recompute(workload, recompute, has_chunked_loss=chunked)
        share = _estimate_training_memory_once(variant, layout)
        if share.total_bytes <= available:
            break
    return variant, share


# A search places one workload on hundreds of kinds of hardware, and many of them in the same layouts.
_estimate_training_memory_once = cache_with_constants(estimate_training_memory)


@lru_cache(maxsize=256)
def _vary_recompute(workload: Workload, recompute: Recompute, *, has_chunked_loss: bool) -> Workload:
    training = with_recompute(workload.training, recompute, has_chunked_loss=has_chunked_loss)
    return replace(workload, training=training)


@lru_cache(maxsize=256)
def with_recompute(
    training: TrainingSettings, recompute: Recompute, *, has_chunked_loss: bool = False
) -> TrainingSettings:
    """Return the training with that recomputation, and with a chunked loss if ``has_chunked_loss``."""
    return replace(training, recompute=recompute, fused_loss=training.fused_loss or has_chunked_loss)


def usable_memory_gib(accelerator: Accelerator) -> float:
    """Return the GiB of one device that an allocator can use: without the driver's context."""
    usable = accelerator.usable_gib or accelerator.memory_gib
    has_no_driver_context = accelerator.unified or accelerator.kind in {"sbc", "npu", "apple"}
    return usable if has_no_driver_context else usable - load_memory_constants()["context_gib"]


def _available_bytes(hardware: Hardware, layout: ParallelLayout) -> float:
    """Return the bytes of one device that a workload may fill, without communication buffers (NCCL)."""
    buffers = (
        load_memory_constants()["collective_gib"] if layout.devices > 1 and not hardware.unified else 0.0
    )
    return (usable_memory_gib(hardware.accelerator) - buffers) * GIB


def _summarize(
    workload: Workload,
    share: DeviceMemoryUse,
    layout: ParallelLayout,
    hardware: Hardware,
    engine: EngineMemoryProfile | None = None,
) -> MemoryEstimate:
    """Return the estimate; an engine that serves fills only its share of the card (vLLM's gpu_memory_utilization).

    Its CUDA graphs are captured outside that share.
    """
    devices, accelerator = max(1, layout.devices), hardware.accelerator
    peak, available = share.total_bytes / GIB, _available_bytes(hardware, layout)
    reserved_gib, engine_limit = 0.0, available
    if engine and engine.gpu_memory_utilization:
        reserved_gib = engine.gpu_memory_utilization * (accelerator.usable_gib or accelerator.memory_gib)
        engine_limit = min(available, reserved_gib * GIB + engine.graphs_gib * GIB)
    summed = {name: getattr(share, name) * devices / GIB for name in COMPONENTS}
    return MemoryEstimate(
        **summed,
        total=sum(summed.values()),
        per_device_gib=peak,
        usable_gib=usable_memory_gib(accelerator),
        fits=share.total_bytes <= engine_limit,
        reserved_gib=max(peak, reserved_gib),
        host_gib=share.host_offload * devices / GIB,
        available_gib=engine_limit / GIB,
        notes=tuple(_memory_notes(workload, share, layout, available)),
    )


def _memory_notes(
    workload: Workload, share: DeviceMemoryUse, layout: ParallelLayout, available: float
) -> list[str]:
    notes = []
    if workload.is_training:
        loss = ", chunked loss" if workload.training.fused_loss else ""
        notes.append(f"activations recomputed: {workload.training.recompute}{loss}")
        notes += _state_notes(workload)
    if share.host_offload:
        notes.append(
            f"{share.host_offload * layout.devices / GIB:.1f} GiB of states are in host memory and not included"
        )
    if workload.task == "full_finetune" and share.total_bytes > available:
        low = estimate_training_memory(_low_memory_variant(workload), layout).total_bytes
        if low <= available:
            notes.append(
                f"fits in {low / GIB:.1f} GiB with paged 8-bit AdamW that steps in the backward pass"
            )
    return notes


def _state_notes(workload: Workload) -> list[str]:
    """Return what is unusual about the states: no 32-bit copy, and experts that are not quantised."""
    training, notes = workload.training, []
    if workload.adapter_kind == "none" and not has_master_copy(workload) and training.optimizer != "sgd":
        notes.append(f"states: {training.optimizer} without a 32-bit copy of the weights")
    if workload.adapter_kind == "qlora" and workload.model.experts and training.experts == "fused":
        notes.append("routed experts stay in 16 bits (bitsandbytes): --experts linear counts them in 4")
    return notes


def _low_memory_variant(workload: Workload) -> Workload:
    training = replace(
        workload.training,
        optimizer="paged_adamw_8bit",
        step_in_backward=True,
        master_copy=False,
        recompute="full",
        fused_loss=True,
    )
    return replace(workload, training=training)
