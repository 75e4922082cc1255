"""Activations that the forward pass of training stores for the backward pass, per device."""

from __future__ import annotations

from gpufleet.catalog.architecture import ModelArchitecture
from gpufleet.sizing.memory.constants import load_memory_constants
from gpufleet.sizing.workload import Workload

BF16_BYTES = 2.0  # bytes of a 16-bit value
DROPOUT_BYTES = 3.0  # a dropped-out copy in 16 bits and its mask in 8
# Unfused attention: softmax output (2), dropout mask (1) and dropout output (2), per head and pair of tokens.
# Source: Korthikanti et al., Reducing Activation Recomputation (arXiv 2205.05198), section 4.1.
SCORE_BYTES = 5.0
DPO_COPIES = 8.0  # shifted copies of the logits of both answers, in 32 bits
COMPILED_SAVED_BYTES = 4.0  # the 32-bit copy of the logits that a compiled loss never writes
SELECTIVE_KEPT_PER = (
    1.5  # of the feed-forward products, every other one is kept (torchtitan's selective operators)
)


def layer_activation_bytes(workload: Workload, tokens: float) -> float:
    """Return the bytes that one layer stores for that many tokens without recomputation."""
    model, training, values = workload.model, workload.training, load_memory_constants()
    state = "frozen" if workload.adapter_kind != "none" else "compiled" if training.compiled else "trained"
    per_token = values[f"norm_{state}"] * model.norms / 2 * model.hidden
    per_token += BF16_BYTES * (2 * _query_width(model) + 2 * _key_width(model))
    per_token += BF16_BYTES * _feed_forward_bytes(model, state, compiled=training.compiled)
    if not training.flash_attention:
        per_token += SCORE_BYTES * model.heads * workload.context_tokens
    per_token += _adapter_bytes(workload) + _quantized_bytes(workload)
    return tokens * per_token * values["activation_scale"]


def recomputed_layer_activation_bytes(workload: Workload, tokens: float) -> float:
    """Return the bytes that a recomputed layer stores: its input, with "selective" also its expensive products."""
    model = workload.model
    stored = BF16_BYTES * model.hidden
    if workload.training.recompute == "selective":
        width = (3 if model.gated else 2) * _feed_forward_width(model) / SELECTIVE_KEPT_PER
        products = (_query_width(model) + 2 * _key_width(model) + model.hidden + width) / 2
        stored += BF16_BYTES * (_query_width(model) + products + model.hidden)
    return tokens * stored


def peak_logits_bytes(workload: Workload, tokens: float, *, split: bool = False) -> float:
    """Return the bytes of the logits and their copies at the loss: the peak for large vocabularies."""
    training = workload.training
    bytes_per_logit = training.logits_bytes + (DPO_COPIES if workload.task == "dpo" else 0.0)
    if training.compiled and not split and bytes_per_logit > 2 * COMPILED_SAVED_BYTES:
        bytes_per_logit -= COMPILED_SAVED_BYTES
    if training.fused_loss:
        bytes_per_logit = BF16_BYTES
    return tokens * workload.model.vocabulary * bytes_per_logit


def _adapter_bytes(workload: Workload) -> float:
    """Return bytes per token that adapters store: the input of every adapted matrix, or its copy after dropout."""
    if workload.adapter_kind == "none":
        return 0.0
    model = workload.model
    inputs = float(model.hidden)
    if workload.training.lora_targets == "all":
        inputs = _input_width(workload)
    return inputs * DROPOUT_BYTES if workload.training.lora_dropout else BF16_BYTES * inputs / 2


def _quantized_bytes(workload: Workload) -> float:
    """Return extra bytes per token of 4-bit matrices: bitsandbytes' autograd function saves input and output."""
    if workload.adapter_kind != "qlora":
        return 0.0
    model = workload.model
    width = _linear_feed_forward_width(workload)
    outputs = (
        _query_width(model)
        + 2 * _key_width(model)
        + (2 if width else 1) * model.hidden
        + (2 if model.gated else 1) * width
    )
    return load_memory_constants()["quant_copies"] * BF16_BYTES * (_input_width(workload) + outputs)


def _input_width(workload: Workload) -> float:
    """Return the inputs of all linear layers, which adapters and quantised matrices store."""
    model, width = workload.model, _linear_feed_forward_width(workload)
    gates = (2 if model.gated else 1) * model.hidden if width else 0
    return model.hidden + _query_width(model) + gates + width


def _linear_feed_forward_width(workload: Workload) -> float:
    """Return the feed-forward width without routed experts that are one tensor: they have no linear layers."""
    model = workload.model
    if model.experts is None or workload.training.experts == "linear":
        return _feed_forward_width(model)
    routed = (
        (model.layers - model.experts.dense_layers) * model.experts.per_token * model.experts.intermediate
    )
    return _feed_forward_width(model) - routed / model.layers


def _feed_forward_bytes(model: ModelArchitecture, state: str, *, compiled: bool) -> float:
    values = load_memory_constants()
    if not model.gated:
        return values["plain_frozen" if state == "frozen" else "plain_trained"] * _feed_forward_width(model)
    stored_widths = values[f"gated_{state}"] - (1 if state == "frozen" and compiled else 0)
    return stored_widths * _feed_forward_width(model)


def _query_width(model: ModelArchitecture) -> float:
    if model.latent:
        return model.heads * (model.latent.nope_dim + model.latent.rope_dim)
    return model.heads * model.head_dim


def _key_width(model: ModelArchitecture) -> float:
    return _query_width(model) if model.latent else model.kv_heads * model.head_dim


def _feed_forward_width(model: ModelArchitecture) -> float:
    """Return the feed-forward width that one token uses, averaged over layers."""
    experts = model.experts
    if experts is None:
        return model.intermediate
    routed = experts.per_token * experts.intermediate
    shared = experts.shared * (experts.shared_intermediate or experts.intermediate)
    sparse = model.layers - experts.dense_layers
    return (sparse * (routed + shared) + experts.dense_layers * model.intermediate) / model.layers
