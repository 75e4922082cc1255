"""Memory peak of a training step on the fullest device: model states, and the largest of three peaks.

One is at the loss: logits and all stored activations, before there are gradients. The second is in the backward pass,
which frees a layer's activations as it makes its gradients: gathered weights and the recomputed layer. The third is the
optimizer's step: all gradients, and the copy of a moment that PyTorch's ``foreach`` AdamW makes.
"""

from __future__ import annotations

from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.hardware import ParallelLayout
from gpufleet.sizing.memory import activations
from gpufleet.sizing.memory.constants import load_memory_constants
from gpufleet.sizing.memory.model_state import (
    MASTER_BYTES,
    ZERO_STAGES,
    base_model_weight_bytes,
    count_state_shards,
    estimate_model_state_memory,
    has_master_copy,
    model_with_stored_embeddings,
    moment_bytes,
)
from gpufleet.sizing.memory.result import GIB, DeviceMemoryUse
from gpufleet.sizing.workload import Workload


@dataclass(frozen=True)
class Zero3GatheredBytes:
    """Bytes that ZeRO-3 gathers temporarily: embedding or output matrix, and the layers in use."""

    embeddings: float = 0.0
    layers: float = 0.0
    embedding_gradient: float = 0.0
    layer_gradient: float = 0.0


def estimate_training_memory(workload: Workload, layout: ParallelLayout) -> DeviceMemoryUse:
    """Return the memory of training on the fullest device of that layout."""
    share = estimate_model_state_memory(workload, layout)
    _add_unsharded_stage(workload, layout, share)
    stored, working, logits = _activation_bytes(workload, layout)
    gathered = _gathered_weights(workload, layout)
    at_loss = logits + gathered.embedding_gradient
    in_layer = working + gathered.layers + gathered.layer_gradient
    persistent = share.gradients if _keeps_gradients(workload, layout) else 0.0
    freed = share.gradients - persistent
    peak = gathered.embeddings + max(stored + at_loss, max(stored, freed) + in_layer)
    peak = max(peak, freed + _optimizer_step_bytes(workload, share))
    values = load_memory_constants()
    share.activations = peak - freed  # what the peak holds beyond all states
    share.overhead = values["workspace_gib"] * GIB + values["fragment"] * (stored + at_loss)
    return share


def _keeps_gradients(workload: Workload, layout: ParallelLayout) -> bool:
    """Return whether gradients exist at the loss: from an earlier micro-batch, or in buffers that are never freed.

    Otherwise ``zero_grad(set_to_none=True)``, PyTorch's default since 2.0, has freed them. Pipelines (Megatron) and
    ZeRO 1 and 2 (DeepSpeed) have buffers.
    """
    training = workload.training
    return (
        layout.pipeline > 1
        or training.accumulation > 1
        or training.step_in_backward
        or (ZERO_STAGES[training.sharding] in (1, 2) and count_state_shards(layout) > 1)
    )


def _optimizer_step_bytes(workload: Workload, share: DeviceMemoryUse) -> float:
    """Return the temporary bytes of the step: the ``foreach`` AdamW takes the root of all second moments at once."""
    training = workload.training
    if not training.foreach_optimizer or training.optimizer != "adamw":
        return 0.0
    master = MASTER_BYTES if has_master_copy(workload) else 0.0
    moments = moment_bytes(workload)
    return share.optimizer * moments / (moments + master) / 2


def _activation_bytes(workload: Workload, layout: ParallelLayout) -> tuple[float, float, float]:
    """Return the bytes stored until the loss, the bytes of one layer in use, and the bytes of the logits."""
    training, model = workload.training, workload.model
    tokens = _micro_batch_tokens(workload, layout)
    layers = -(-model.layers // layout.pipeline) * (training.micro_batches_in_flight or layout.pipeline)
    layer_bytes = activations.layer_activation_bytes(workload, tokens) / layout.tensor
    logits = activations.peak_logits_bytes(workload, tokens, split=layout.tensor > 1) / layout.tensor
    if layout.tensor > 1:
        gathered = (
            3 * activations.BF16_BYTES * tokens * model.hidden
        )  # inputs and outputs that tensor parallelism gathers
        layer_bytes, logits = layer_bytes + gathered, logits + gathered
    if training.recompute in {"none", "auto"}:
        return layers * layer_bytes, 0.0, logits
    spread = layout.tensor if training.sequence_parallel else 1
    return (
        layers * activations.recomputed_layer_activation_bytes(workload, tokens) / spread,
        layer_bytes,
        logits,
    )


def _micro_batch_tokens(workload: Workload, layout: ParallelLayout) -> float:
    """Return the tokens of one micro-batch on one device; a pipeline splits the batch by its stages."""
    sequences = workload.batch * (2 if workload.task == "dpo" else 1)
    return (
        max(1.0, sequences / layout.pipeline) * workload.context_tokens / workload.training.context_parallel
    )


def _gathered_weights(workload: Workload, layout: ParallelLayout) -> Zero3GatheredBytes:
    sharded = workload.training.sharding == "zero3" and count_state_shards(layout) > 1
    if not sharded or layout.pipeline > 1:
        return Zero3GatheredBytes()
    model = model_with_stored_embeddings(workload)
    embedding_weights = model.vocabulary * model.hidden * (1 if model.tied_embeddings else 2)
    layer = (model.parameters - embedding_weights) / model.layers
    bytes_per_weight = (base_model_weight_bytes(workload) - 2.0 * embedding_weights) / (
        model.parameters - embedding_weights
    )
    gradient_bytes = 2.0 if workload.adapter_kind == "none" else 0.0
    return Zero3GatheredBytes(
        embeddings=2.0 * embedding_weights / layout.tensor,
        layers=2 * layer * bytes_per_weight / layout.tensor,
        embedding_gradient=gradient_bytes * model.vocabulary * model.hidden / layout.tensor,
        layer_gradient=gradient_bytes * layer / layout.tensor,
    )


def _add_unsharded_stage(workload: Workload, layout: ParallelLayout, share: DeviceMemoryUse) -> None:
    """Add weights and gradients that a pipeline stage keeps unsharded between micro-batches."""
    shards = count_state_shards(layout)
    if layout.pipeline == 1 or shards == 1 or ZERO_STAGES[workload.training.sharding] < ZERO_STAGES["zero3"]:
        return
    unsharded = workload.model.parameters / (layout.tensor * layout.pipeline) * (1 - 1 / shards)
    share.weights += 2.0 * unsharded
    if workload.adapter_kind == "none":
        share.gradients += 4.0 * unsharded
