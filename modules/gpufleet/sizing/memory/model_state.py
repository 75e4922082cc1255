"""Model states of training on one device (weights, gradients, optimizer), sharded and offloaded."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from gpufleet.catalog.architecture import ModelArchitecture
from gpufleet.catalog.parameter_count import list_weight_matrices
from gpufleet.sizing.hardware import ParallelLayout
from gpufleet.sizing.memory.quantization import normalize_precision
from gpufleet.sizing.memory.result import DeviceMemoryUse
from gpufleet.sizing.memory.weights import UNQUANTIZED_FORMATS, list_matrix_bytes, weight_bytes
from gpufleet.sizing.workload import Experts, LoraTargets, Workload

# Adam keeps two 32-bit moments; in 8 bits each has a 32-bit scale per 2,048 weights (bitsandbytes blocks of 256).
OPTIMIZER_BYTES = {"adamw": 8.0, "adamw_8bit": 2.03, "paged_adamw_8bit": 2.03, "sgd": 0.0}
FUSED_EXPERT_BYTES = 2.0
MASTER_BYTES = 4.0  # 32-bit copy of the weights; source: ZeRO (arXiv 1910.02054), section 3.1
ATTENTION = ("q", "k", "v", "o", "latent")
ADAPTED_MATRICES = {"attention": ("q", "v"), "all": (*ATTENTION, "gate", "up", "down")}
ZERO_STAGES = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3}


def estimate_model_state_memory(workload: Workload, layout: ParallelLayout) -> DeviceMemoryUse:
    """Return the bytes that persist between steps on one device."""
    training, split = workload.training, layout.tensor * layout.pipeline
    shards = count_state_shards(layout)
    stage = ZERO_STAGES[training.sharding] if shards > 1 else 0
    weights = (
        base_model_weight_bytes(workload)
        + dpo_reference_model_bytes(workload)
        + workload.training.adapter_bytes * count_adapter_parameters(workload)
    )
    gradients, optimizer = _gradient_bytes(workload, layout), _optimizer_bytes(workload)
    has_unsharded_gradients = training.accumulation > 1 and not training.sync_each
    expert_share = _expert_share(workload, layout) if stage < ZERO_STAGES["zero3"] else 1.0
    weights, gradients, optimizer = weights * expert_share, gradients * expert_share, optimizer * expert_share
    share = DeviceMemoryUse(
        weights=weights / split / (shards if stage == ZERO_STAGES["zero3"] else 1),
        gradients=gradients
        / split
        / (shards if stage >= ZERO_STAGES["zero2"] and not has_unsharded_gradients else 1),
        optimizer=optimizer / split / (shards if stage >= ZERO_STAGES["zero1"] else 1),
    )
    _move_offloaded(workload, share)
    return share


def _expert_share(workload: Workload, layout: ParallelLayout) -> float:
    """Return the fraction of the weights on one device with expert parallelism."""
    if layout.expert <= 1:
        return 1.0
    routed = sum(m.element_count for m in list_weight_matrices(workload.model) if m.routed)
    return 1.0 - routed / workload.model.parameters * (1.0 - 1.0 / max(1, layout.expert))


def count_state_shards(layout: ParallelLayout) -> int:
    """Return over how many devices data parallelism shards the states."""
    return layout.shards or max(1, layout.devices // (layout.tensor * layout.pipeline))


def model_with_stored_embeddings(workload: Workload) -> ModelArchitecture:
    """Return the model as the library stores it: some keep two copies of a tied embedding."""
    model = workload.model
    if workload.training.untied and model.tied_embeddings:
        extra = model.vocabulary * model.hidden
        return replace(model, tied_embeddings=False, parameters=model.parameters + extra)
    return model


def count_adapter_parameters(workload: Workload) -> float:
    """Return the number of LoRA adapter weights."""
    if workload.adapter_kind == "none":
        return 0.0
    training = workload.training
    return training.lora_rank * _adapted_dimensions(workload.model, training.lora_targets, training.experts)


@lru_cache(maxsize=64)
def _adapted_dimensions(model: ModelArchitecture, targets: LoraTargets, experts: Experts) -> float:
    """Return rows plus columns of all adapted matrices: the adapter weights per rank."""
    kinds = ADAPTED_MATRICES[targets]
    return float(
        sum(
            (m.rows + m.columns) * m.count * m.layers
            for m in list_weight_matrices(model)
            if m.kind in kinds and (experts == "linear" or not m.routed)
        )
    )


def base_model_weight_bytes(workload: Workload) -> float:
    """Return the bytes of the weights that the forward pass reads."""
    model, name = model_with_stored_embeddings(workload), normalize_precision(workload.precision)
    if workload.adapter_kind == "qlora":
        name = "nf4" if name in UNQUANTIZED_FORMATS else name
        total = weight_bytes(model, name)
        if workload.training.experts == "fused" and model.experts:
            # bitsandbytes 0.50 with transformers 5.24 replaces torch.nn.Linear only: routed experts stay in 16 bits
            total += sum(
                FUSED_EXPERT_BYTES * matrix.element_count - size
                for matrix, size in list_matrix_bytes(model, name)
                if matrix.routed
            )
        return total
    if workload.adapter_kind == "lora":
        return weight_bytes(model, name)
    return weight_bytes(model, "f32" if name == "f32" else "bf16")  # FP8 training keeps 16-bit weights too


def dpo_reference_model_bytes(workload: Workload) -> float:
    """Return the second copy of the weights that DPO compares with; an adapter is simply switched off."""
    if workload.task != "dpo" or workload.adapter_kind != "none":
        return 0.0
    return weight_bytes(workload.model, "bf16")


def _trained_parameters(workload: Workload) -> float:
    return (
        count_adapter_parameters(workload)
        if workload.adapter_kind != "none"
        else model_with_stored_embeddings(workload).parameters
    )


def _gradient_bytes(workload: Workload, layout: ParallelLayout) -> float:
    """Return the bytes of the gradients; pipeline-parallel training (Megatron) accumulates them in 32 bits."""
    training = workload.training
    if training.step_in_backward:
        return max((m.rows * m.columns * 2.0 for m in list_weight_matrices(workload.model)), default=0.0)
    has_32_bit_gradients = layout.pipeline > 1 or normalize_precision(workload.precision) == "f32"
    has_master_copy = training.master_copy and workload.adapter_kind == "none"
    if workload.adapter_kind != "none":
        return _trained_parameters(workload) * training.adapter_bytes
    return _trained_parameters(workload) * (4.0 if has_32_bit_gradients and has_master_copy else 2.0)


def _optimizer_bytes(workload: Workload) -> float:
    bytes_per_weight = moment_bytes(workload) + (MASTER_BYTES if has_master_copy(workload) else 0.0)
    return _trained_parameters(workload) * bytes_per_weight


def moment_bytes(workload: Workload) -> float:
    """Return the bytes of the optimizer's moments for each trained weight; pure 16-bit recipes keep 16-bit moments."""
    training = workload.training
    is_pure = workload.adapter_kind == "none" and not training.master_copy and training.optimizer == "adamw"
    return OPTIMIZER_BYTES[training.optimizer] / (2.0 if is_pure else 1.0)


def has_master_copy(workload: Workload) -> bool:
    """Return whether the optimizer keeps a 32-bit copy of the trained weights."""
    is_mixed = workload.training.master_copy and normalize_precision(workload.precision) != "f32"
    return workload.adapter_kind == "none" and is_mixed


def _move_offloaded(workload: Workload, share: DeviceMemoryUse) -> None:
    """Move states to the host; a paged optimizer pages its moments, not the 32-bit copy of the weights."""
    offload, optimizer = workload.training.offload, workload.training.optimizer
    if offload in {"optimizer", "all"}:
        share.host_offload, share.optimizer = share.optimizer, 0.0
    elif optimizer.startswith("paged"):
        moments = OPTIMIZER_BYTES[optimizer]
        kept = MASTER_BYTES / (MASTER_BYTES + moments) if has_master_copy(workload) else 0.0
        share.host_offload, share.optimizer = share.optimizer * (1 - kept), share.optimizer * kept
    if offload == "all":
        share.host_offload += share.weights + share.gradients
        share.weights = share.gradients = 0.0
