"""Prompts: many tokens at once, limited by operations, or by reading the weights where prompts are short."""

from __future__ import annotations

from math import ceil

from gpufleet.sizing.speed import operation_count
from gpufleet.sizing.speed.device import is_server_engine
from gpufleet.sizing.speed.replica import MAX_SHARE, REFERENCE_FLOPS, Replica, combine_overlapping

CHUNK_LOCAL = 512  # llama.cpp's physical batch
CHUNK_SERVED = 8192  # tokens that a server puts through at a time


def prefill_seconds(setting: Replica, prompts: float, length: float) -> float | None:
    """Return what reading so many prompts takes, None where the catalogue has no rate to start from."""
    if setting.peak_flops is None or setting.peak_bandwidth is None:
        return None
    tokens = prompts * length
    if tokens <= 0:
        return 0.0
    chunks = ceil(tokens / (CHUNK_SERVED if is_server_engine(setting.engine) else CHUNK_LOCAL))
    tensor = setting.layout.tensor
    compute = _compute_seconds(setting, tokens, length) / tensor
    reading = chunks * _weight_read_seconds(setting, tokens / chunks) / tensor
    passes = chunks * setting.model.layers * setting.factor("layer_seconds") + setting.factor("step_seconds")
    moved = chunks * setting.all_reduce_seconds(tokens / chunks)
    return (combine_overlapping(compute, reading, passes) + moved) * _pipeline_share(setting, chunks)


def _compute_seconds(setting: Replica, tokens: float, length: float) -> float:
    nominal = setting.peak_flops or 1.0
    share = setting.factor("prefill_compute") * setting.saturation_factor(
        "compute_law", nominal, REFERENCE_FLOPS
    )
    share *= setting.factor("prefill_experts") if setting.expert_layers else 1.0
    dense = operation_count.forward_operations(setting.model) / min(
        share * setting.factor(f"prefill_compute_{setting.kernel_format}"), MAX_SHARE
    )
    attention = operation_count.attention_operations(setting.model, length) / min(
        share * setting.factor("prefill_attention"), MAX_SHARE
    )
    return tokens * (dense + attention) / nominal


def _weight_read_seconds(setting: Replica, tokens: float) -> float:
    return operation_count.weight_bytes_read(setting.model, setting.precision, tokens) / setting.weight_rate


def _pipeline_share(setting: Replica, chunks: int) -> float:
    """Return the share of a single device's time: stages of a layer split work on chunks one behind the other.

    What perfect stages would gain is had in part: they wait for each other and for copies.
    """
    stages = setting.layout.pipeline
    if stages <= 1:
        return 1.0
    gained = chunks * stages / (chunks + stages - 1) - 1.0
    return 1.0 / (1.0 + gained * setting.capped_factor("prefill_stages"))
