"""Memory of training on the fullest device: weights, gradients, optimiser, activations, logits."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.catalog.parameters import matrices
from gpufleet.sizing.hardware import Layout
from gpufleet.sizing.memory import activations
from gpufleet.sizing.memory.blocks import precision_name
from gpufleet.sizing.memory.constants import constants
from gpufleet.sizing.memory.result import GIB, Share
from gpufleet.sizing.memory.weights import weight_bytes
from gpufleet.sizing.workload import Workload

OPTIMIZER_BYTES = {"adamw": 8.0, "adamw_8bit": 2.06, "paged_adamw_8bit": 2.06, "sgd": 0.0}
ATTENTION = ("q", "k", "v", "o", "latent")
ADAPTED = {"attention": ATTENTION, "all": (*ATTENTION, "gate", "up", "down")}


def training_share(workload: Workload, layout: Layout) -> Share:
    """Return what training takes on the fullest device of that layout."""
    share = Share()
    _states(workload, layout, share)
    _gathered(workload, layout, share)
    _activations(workload, layout, share)
    _overhead(layout, share)
    return share


def adapter_parameters(workload: Workload) -> float:
    """Return how many weights the low-rank adapters have."""
    if workload.adapter == "none":
        return 0.0
    kinds = ADAPTED[workload.training.lora_targets]
    rank = workload.training.lora_rank
    return sum(
        rank * (m.rows + m.columns) * m.count * m.layers for m in matrices(workload.model) if m.kind in kinds
    )


def _trained(workload: Workload) -> float:
    if workload.adapter != "none":
        return adapter_parameters(workload)
    return workload.model.parameters


def _states(workload: Workload, layout: Layout, share: Share) -> None:
    training, model = workload.training, workload.model
    trained, split = _trained(workload), layout.tensor * layout.pipeline
    shards = max(1, layout.devices // split)
    shared = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3}[training.sharding] if shards > 1 else 0
    pure = not training.master_copy and workload.adapter == "none"
    gradients = trained * (4.0 if layout.tensor * layout.pipeline > 1 and not pure else 2.0)
    optimizer = (
        trained
        * OPTIMIZER_BYTES[training.optimizer]
        / (2.0 if pure and training.optimizer == "adamw" else 1.0)
    )
    if training.master_copy and workload.adapter == "none" and precision_name(workload.precision) != "f32":
        optimizer += trained * 4.0
    share.weights = (base_bytes(workload) + 2.0 * adapter_parameters(workload)) / split
    share.weights /= shards if shared == 3 else 1  # noqa: PLR2004 - ZeRO's third stage
    share.weights += reference_bytes(workload) / split / (shards if shared == 3 else 1)  # noqa: PLR2004
    whole = training.accumulation > 1 and not training.sync_each
    if not training.step_in_backward:
        share.gradients = gradients / split / (shards if shared >= 2 and not whole else 1)  # noqa: PLR2004
    share.optimizer = optimizer / split / (shards if shared >= 1 else 1)
    if training.step_in_backward:
        share.gradients = max((m.rows * m.columns * 2.0 for m in matrices(model)), default=0.0) / split
    _offload(workload, share)


def base_bytes(workload: Workload) -> float:
    """Return the bytes of the weights that the forward pass reads."""
    model, name = workload.model, precision_name(workload.precision)
    if workload.training.untied and model.tied_embeddings:
        model = replace(
            model, tied_embeddings=False, parameters=model.parameters + model.vocabulary * model.hidden
        )
    if workload.adapter == "qlora":
        return weight_bytes(model, name if name not in {"f32", "f16", "bf16"} else "nf4")
    if workload.adapter == "lora":
        return weight_bytes(model, name)
    return weight_bytes(model, "f32" if name == "f32" else "bf16")  # FP8 training keeps 16-bit weights too


def reference_bytes(workload: Workload) -> float:
    """Return the second copy of the weights that DPO compares with; an adapter is simply switched off."""
    if workload.task != "dpo" or workload.adapter != "none":
        return 0.0
    return weight_bytes(workload.model, "bf16")


def _offload(workload: Workload, share: Share) -> None:
    offload = workload.training.offload
    if offload == "none" and workload.training.optimizer.startswith("paged"):
        share.host, share.optimizer = share.optimizer, 0.0
    if offload in {"optimizer", "all"}:
        share.host += share.optimizer
        share.optimizer = 0.0
    if offload == "all":
        share.host += share.weights + share.gradients
        share.weights = share.gradients = 0.0


def _gathered(workload: Workload, layout: Layout, share: Share) -> None:
    """Add what full sharding gathers for the layers at work, or for a whole pipeline stage."""
    split = layout.tensor * layout.pipeline
    shards = max(1, layout.devices // split)
    training, model = workload.training, workload.model
    if training.sharding != "zero3" or shards == 1:
        return
    if layout.pipeline > 1:
        whole = model.parameters / split
        share.weights += whole * 2.0 * (1 - 1 / shards)
        if workload.adapter == "none":
            share.gradients += whole * 4.0 * (1 - 1 / shards)
        return
    bits = base_bytes(workload) / model.parameters
    ends = model.vocabulary * model.hidden * (1 if model.tied_embeddings and not training.untied else 2)
    layer = (model.parameters - ends) / model.layers
    share.activations += (2 * layer + ends) * bits / layout.tensor
    if workload.adapter == "none":
        share.activations += max(layer, ends) * 2.0 / layout.tensor


def _activations(workload: Workload, layout: Layout, share: Share) -> None:
    training, model = workload.training, workload.model
    sequences = workload.batch * (2 if workload.task == "dpo" else 1)
    length = workload.context / training.context_parallel
    tokens = sequences * length
    layers = -(-model.layers // layout.pipeline)
    spread = layout.tensor if training.sequence_parallel else 1
    one = activations.layer_bytes(model, training, tokens, workload.context) / layout.tensor
    one += activations.adapter_bytes(workload, tokens) / layout.tensor
    held = max(1, training.in_flight or layout.pipeline)
    if layout.pipeline > 1:
        tokens, one = length, one / sequences
        held = min(held, sequences) if sequences > 1 else held
    if training.recompute in {"none", "auto"}:
        share.activations += layers * one * held
    else:
        share.activations += (
            layers * held * activations.checkpoint_bytes(model, training, tokens) / spread + one
        )
    stage = 1 if layout.pipeline == 1 else 1 / layout.pipeline
    share.activations += activations.logits_bytes(workload, tokens) / layout.tensor * stage


def _overhead(layout: Layout, share: Share) -> None:
    known = constants()
    share.overhead = known["workspace_gib"] * GIB
    share.overhead += known["fragment"] * share.activations
    if layout.devices > 1:
        share.overhead += known["collective_gib"] * GIB
