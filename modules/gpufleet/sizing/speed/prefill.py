"""Prefill: many tokens at once, limited by compute, or by weight reads for short prompts."""

from __future__ import annotations

from math import ceil

from gpufleet.sizing.speed import expert_load, operation_count
from gpufleet.sizing.speed.device import is_server_engine
from gpufleet.sizing.speed.replica import MAX_SHARE, REFERENCE_FLOPS, Replica, combine_overlapping_seconds

CHUNK_LOCAL = 512  # llama.cpp's physical batch
CHUNK_SERVED = 8192  # tokens per prefill step of a server, as in memory.inference.ENGINE_MEMORY


def estimate_prefill_seconds(replica: Replica, prompt_count: float, prompt_tokens: float) -> float | None:
    """Return the seconds of prefill for so many prompts, None if the catalogue has no rate."""
    if replica.device_peak_flops is None or replica.peak_bandwidth_bytes_per_s is None:
        return None
    tokens = prompt_count * prompt_tokens
    if tokens <= 0:
        return 0.0
    groups = min(float(replica.attention_groups), max(prompt_count, 1.0))
    chunk_tokens = CHUNK_SERVED * groups if is_server_engine(replica.calibrated_engine) else CHUNK_LOCAL
    chunks = ceil(tokens / chunk_tokens)
    tensor = replica.layout.tensor
    compute = _compute_seconds(replica, tokens, prompt_tokens) / tensor / groups
    reading = chunks * _weight_read_seconds(replica, tokens / chunks)
    passes = chunks * replica.model.layers * replica.efficiency_factor(
        "layer_seconds"
    ) + replica.efficiency_factor("step_seconds")
    communication_seconds = chunks * (
        replica.all_reduce_seconds(tokens / chunks / groups)
        + replica.expert_exchange_seconds(tokens / chunks)
    )
    return (combine_overlapping_seconds(compute, reading, passes) + communication_seconds) * _pipeline_share(
        replica, chunks
    )


def _compute_seconds(replica: Replica, tokens: float, length: float) -> float:
    nominal = replica.device_peak_flops or 1.0
    share = replica.efficiency_factor("prefill_compute") * replica.saturation_factor(
        "compute_law", nominal, REFERENCE_FLOPS
    )
    share *= replica.efficiency_factor("prefill_experts") if replica.expert_layer_count else 1.0
    dense = operation_count.forward_operations_per_token(replica.model) / min(
        share * replica.efficiency_factor(f"prefill_compute_{replica.kernel_weight_format}"), MAX_SHARE
    )
    attention = operation_count.attention_operations_per_token(replica.model, length) / min(
        share * replica.efficiency_factor("prefill_attention"), MAX_SHARE
    )
    return tokens * (dense + attention) / nominal


def _weight_read_seconds(replica: Replica, tokens: float) -> float:
    model, precision = replica.model, replica.weight_precision
    read = operation_count.dense_weight_bytes(model, precision) / replica.layout.tensor
    if replica.expert_layer_count:
        read += expert_load.read_share(replica, tokens) * operation_count.routed_weight_bytes(
            model, precision
        )
    return read / replica.effective_weight_bytes_per_s


def _pipeline_share(replica: Replica, chunks: int) -> float:
    """Return the share of a single device's time: pipeline stages process chunks one after the other.

    Only a fitted share of the ideal gain counts, because stages wait for each other and for copies.
    """
    stages = replica.layout.pipeline
    if stages <= 1:
        return 1.0
    ideal_gain = chunks * stages / (chunks + stages - 1) - 1.0
    return 1.0 / (1.0 + ideal_gain * replica.capped_efficiency_factor("prefill_stages"))
