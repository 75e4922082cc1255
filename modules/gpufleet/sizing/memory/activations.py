"""What the forward pass of training leaves behind for the backward pass, per device."""

from __future__ import annotations

from gpufleet.catalog.architecture import Architecture
from gpufleet.sizing.memory.constants import constants
from gpufleet.sizing.workload import Workload

HALF = 2.0  # bytes of a 16-bit value
DROPPED = 3.0  # a dropped-out copy in 16 bits and its mask in 8
SCORE_BYTES = 5.0  # scores, softmax and its dropout mask where attention is not fused
DPO_COPIES = 8.0  # shifted copies of the logits of both answers, in 32 bits
COMPILED_AWAY = 4.0  # the 32-bit copy of the logits that a compiled loss never writes
ONE_SELECTED = 1.5  # of the feed-forward products, every other one is kept (torchtitan's selective operators)


def layer_bytes(workload: Workload, tokens: float) -> float:
    """Return the bytes that one layer keeps for that many tokens when nothing is recomputed."""
    model, training, known = workload.model, workload.training, constants()
    state = "frozen" if workload.adapter != "none" else "compiled" if training.compiled else "trained"
    per_token = known[f"norm_{state}"] * model.norms / 2 * model.hidden
    per_token += HALF * (2 * _queries(model) + 2 * _keys(model))
    per_token += HALF * _feed_forward(model, state, compiled=training.compiled)
    if not training.flash_attention:
        per_token += SCORE_BYTES * model.heads * workload.context
    per_token += _adapters(workload) + _quantised(workload)
    return tokens * per_token * known["activation_scale"]


def kept_bytes(workload: Workload, tokens: float) -> float:
    """Return what one layer keeps when it is recomputed: its input, and with selective its costly products."""
    model = workload.model
    kept = HALF * model.hidden
    if workload.training.recompute == "selective":
        width = (3 if model.gated else 2) * _width(model) / ONE_SELECTED
        products = (_queries(model) + 2 * _keys(model) + model.hidden + width) / 2
        kept += HALF * (_queries(model) + products + model.hidden)
    return tokens * kept


def logits_bytes(workload: Workload, tokens: float, *, split: bool = False) -> float:
    """Return the logits and their copies at the loss; a large vocabulary makes this the peak."""
    training = workload.training
    each = training.logits_bytes + (DPO_COPIES if workload.task == "dpo" else 0.0)
    if training.compiled and not split and each > 2 * COMPILED_AWAY:
        each -= COMPILED_AWAY
    if training.fused_loss:
        each = HALF
    return tokens * workload.model.vocabulary * each


def _adapters(workload: Workload) -> float:
    """Return per token what adapters keep: the dropped-out input of every adapted matrix, or the input itself."""
    if workload.adapter == "none":
        return 0.0
    model = workload.model
    inputs = float(model.hidden)
    if workload.training.lora_targets == "all":
        inputs = _inputs(model)
    return inputs * DROPPED if workload.training.lora_dropout else HALF * inputs / 2


def _quantised(workload: Workload) -> float:
    """Return per token what 4-bit matrices keep beside: their own autograd function saves input and output."""
    if workload.adapter != "qlora":
        return 0.0
    model = workload.model
    outputs = (
        _queries(model) + 2 * _keys(model) + 2 * model.hidden + (2 if model.gated else 1) * _width(model)
    )
    return constants()["quant_copies"] * HALF * (_inputs(model) + outputs)


def _inputs(model: Architecture) -> float:
    return model.hidden + _queries(model) + (2 if model.gated else 1) * model.hidden + _width(model)


def _feed_forward(model: Architecture, state: str, *, compiled: bool) -> float:
    known = constants()
    if not model.gated:
        return known["plain_frozen" if state == "frozen" else "plain_trained"] * _width(model)
    kept = known[f"gated_{state}"] - (1 if state == "frozen" and compiled else 0)
    return kept * _width(model)


def _queries(model: Architecture) -> float:
    if model.latent:
        return model.heads * (model.latent.nope_dim + model.latent.rope_dim)
    return model.heads * model.head_dim


def _keys(model: Architecture) -> float:
    return _queries(model) if model.latent else model.kv_heads * model.head_dim


def _width(model: Architecture) -> float:
    """Return the feed-forward width that one token passes, averaged over layers."""
    experts = model.experts
    if experts is None:
        return model.intermediate
    routed = experts.per_token * experts.intermediate
    shared = experts.shared * (experts.shared_intermediate or experts.intermediate)
    sparse = model.layers - experts.dense_layers
    return (sparse * (routed + shared) + experts.dense_layers * model.intermediate) / model.layers
