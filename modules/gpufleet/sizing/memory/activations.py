"""What the forward pass of training leaves behind for the backward pass, per device."""

from __future__ import annotations

from gpufleet.catalog.architecture import Architecture
from gpufleet.sizing.memory.constants import constants
from gpufleet.sizing.workload import Training, Workload

HALF = 2.0  # bytes of a 16-bit value
SCORE_BYTES = 5.0  # scores, softmax and its dropout mask where attention is not fused


def layer_bytes(model: Architecture, training: Training, tokens: float, sequence: float) -> float:
    """Return the bytes that one layer keeps for that many tokens when nothing is recomputed."""
    known = constants()
    queries, keys = model.heads * _head(model), model.kv_heads * _head(model)
    norms = known["norm_bytes_compiled" if training.compiled else "norm_bytes"] * model.norms / 2
    per_token = norms * model.hidden + HALF * model.hidden
    per_token += HALF * (2 * queries + 2 * (keys if not model.latent else queries))
    per_token += HALF * _mlp(model, training)
    scores = 0.0 if training.flash_attention else SCORE_BYTES * model.heads * sequence
    return tokens * (per_token + scores)


def checkpoint_bytes(model: Architecture, training: Training, tokens: float) -> float:
    """Return what one layer keeps when it is recomputed: its input, and with selective its costly products."""
    kept = HALF * model.hidden
    if training.recompute == "selective":
        queries, keys = model.heads * _head(model), model.kv_heads * _head(model)
        width = _width(model)
        products = queries + 2 * keys + model.hidden + (3 if model.gated else 2) * width / 1.5
        kept += HALF * (queries + products / 2 + model.hidden)
    return tokens * kept


def adapter_bytes(workload: Workload, tokens: float) -> float:
    """Return what the adapters of one layer keep: the dropped-out inputs of every adapted matrix."""
    if workload.adapter == "none" or not workload.training.lora_dropout:
        return 0.0
    model = workload.model
    inputs = float(model.hidden)
    if workload.training.lora_targets == "all":
        inputs += model.heads * _head(model) + (2 if model.gated else 1) * model.hidden + _width(model)
    return tokens * inputs * 3.0  # the dropped-out copy in 16 bits and its mask in 8


def logits_bytes(workload: Workload, tokens: float) -> float:
    """Return the logits and their copies at the loss; a large vocabulary makes this the peak."""
    training = workload.training
    each = training.logits_bytes
    if training.fused_loss:
        each = training.logits_bytes / 8 + HALF
    return tokens * workload.model.vocabulary * each


def _head(model: Architecture) -> float:
    if model.latent:
        return model.latent.nope_dim + model.latent.rope_dim
    return model.head_dim


def _width(model: Architecture) -> float:
    """Return the feed-forward width that one token passes, averaged over layers."""
    experts = model.experts
    if experts is None:
        return model.intermediate
    routed = experts.per_token * experts.intermediate
    shared = experts.shared * (experts.shared_intermediate or experts.intermediate)
    moe = model.layers - experts.dense_layers
    return (moe * (routed + shared) + experts.dense_layers * model.intermediate) / model.layers


def _mlp(model: Architecture, training: Training) -> float:
    known = constants()
    if not model.gated:
        return known["mlp_plain"] * _width(model)
    return known["mlp_gated_compiled" if training.compiled else "mlp_gated"] * _width(model)
