"""Prompts: many tokens at once, limited by operations, or by reading the weights where prompts are short."""

from __future__ import annotations

from math import ceil

from gpufleet.sizing.speed import operation_count
from gpufleet.sizing.speed.device import serves
from gpufleet.sizing.speed.replica import MOST, USUAL_RATE, Setting, together

CHUNK_LOCAL = 512  # llama.cpp's physical batch
CHUNK_SERVED = 8192  # tokens that a server puts through at a time


def seconds(setting: Setting, prompts: float, length: float) -> float | None:
    """Return what reading so many prompts takes, None where the catalogue has no rate to start from."""
    if setting.flops is None or setting.bandwidth is None:
        return None
    tokens = prompts * length
    if tokens <= 0:
        return 0.0
    chunks = ceil(tokens / (CHUNK_SERVED if serves(setting.engine) else CHUNK_LOCAL))
    tensor = setting.layout.tensor
    compute = _compute(setting, tokens, length) / tensor
    reading = chunks * _reading(setting, tokens / chunks) / tensor
    passes = chunks * setting.model.layers * setting.factor("layer_seconds") + setting.factor("step_seconds")
    moved = chunks * setting.exchange(tokens / chunks)
    return (together(compute, reading, passes) + moved) * _staged(setting, chunks)


def _compute(setting: Setting, tokens: float, length: float) -> float:
    nominal = setting.flops or 1.0
    share = setting.factor("prefill_compute") * setting.law("compute_law", nominal, USUAL_RATE)
    share *= setting.factor("prefill_experts") if setting.expert_layers else 1.0
    dense = operation_count.operations(setting.model) / min(
        share * setting.factor(f"prefill_compute_{setting.form}"), MOST
    )
    attention = operation_count.attention_operations(setting.model, length) / min(
        share * setting.factor("prefill_attention"), MOST
    )
    return tokens * (dense + attention) / nominal


def _reading(setting: Setting, tokens: float) -> float:
    return operation_count.bytes_read(setting.model, setting.precision, tokens) / setting.weight_rate


def _staged(setting: Setting, chunks: int) -> float:
    """Return the share of a single device's time: stages of a layer split work on chunks one behind the other.

    What perfect stages would gain is had in part: they wait for each other and for copies.
    """
    stages = setting.layout.pipeline
    if stages <= 1:
        return 1.0
    gained = chunks * stages / (chunks + stages - 1) - 1.0
    return 1.0 / (1.0 + gained * setting.share("prefill_stages"))
