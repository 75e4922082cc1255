"""Decode: one token of every stream per step, mostly limited by memory reads."""

from __future__ import annotations

from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.memory.kv_cache import kv_cache_bytes_read
from gpufleet.sizing.speed import expert_load, operation_count
from gpufleet.sizing.speed.device import EAGER_ENGINES
from gpufleet.sizing.speed.replica import MAX_SHARE, REFERENCE_FLOPS, Replica, combine_overlapping_seconds


@dataclass(frozen=True)
class DecodeStepTime:
    """Seconds of one decode step by component; ``overlapped`` are those of memory and compute together."""

    memory: float
    compute: float
    overlapped: float
    launch: float
    communication: float

    @property
    def total_seconds(self) -> float:
        """Return the seconds of the step."""
        return self.overlapped + self.launch + self.communication


def estimate_decode_step_time(replica: Replica, streams: float, context: float) -> DecodeStepTime | None:
    """Return the time of one decode step for so many streams, None without a known bandwidth.

    Dense layers, routed experts and attention are kernels that run one after the other: within each, reading and
    computing overlap. Groups of attention data parallelism have their share of the streams; all share the experts.
    """
    if replica.peak_bandwidth_bytes_per_s is None:
        return None
    group = streams / replica.attention_groups
    checked = (
        1.0 + replica.workload.draft_tokens
    )  # tokens of each stream in one step: the next one and guesses
    parts = [
        _dense_seconds(replica, group * checked),
        expert_load.expert_seconds(replica, streams * checked),
        _attention_seconds(replica, group, context),
    ]
    eager = (
        replica.model.layers * replica.efficiency_factor("eager_seconds")
        if replica.calibrated_engine in EAGER_ENGINES
        else 0.0
    )
    return DecodeStepTime(
        memory=sum(memory for memory, _ in parts),
        compute=sum(compute for _, compute in parts),
        overlapped=combine_overlapping_seconds(
            sum(combine_overlapping_seconds(*part) for part in parts), eager
        ),
        launch=_launch_seconds(replica, group),
        communication=replica.all_reduce_seconds(group * checked)
        + replica.expert_exchange_seconds(streams * checked)
        + replica.pipeline_hop_seconds(group * checked),
    )


def _launch_seconds(replica: Replica, streams: float) -> float:
    """Return launch overhead: per layer by its kinds of kernels, per step and per stream."""
    model, form = replica.model, replica.kernel_weight_format
    seconds = (
        model.layers
        * replica.efficiency_factor("layer_seconds")
        * replica.efficiency_factor(f"layer_seconds_{form}")
    )
    if replica.expert_layer_count:
        seconds += (
            replica.expert_layer_count
            * replica.efficiency_factor("expert_seconds")
            * replica.efficiency_factor(f"expert_seconds_{form}")
        )
    if model.latent:
        seconds += model.layers * replica.efficiency_factor("latent_seconds")
    return (
        seconds
        + replica.efficiency_factor("step_seconds")
        + streams * replica.efficiency_factor("stream_seconds")
    )


def _dense_seconds(replica: Replica, streams: float) -> tuple[float, float]:
    """Return the seconds of reading and of computing with the weights that every token passes."""
    tensor = replica.layout.tensor
    read = operation_count.dense_weight_bytes(replica.model, replica.weight_precision)
    operations = streams * operation_count.dense_operations_per_token(replica.model)
    return read / replica.effective_weight_bytes_per_s / tensor, _seconds_of_operations(
        replica, operations
    ) / tensor


def _attention_seconds(replica: Replica, streams: float, context: float) -> tuple[float, float]:
    """Return the seconds of reading the cache, and of computing latent attention, which shares it over all heads."""
    model, bandwidth = replica.model, replica.peak_bandwidth_bytes_per_s or 1.0
    cache = streams * kv_cache_bytes_read(model, context, replica.kv_precision) / replica.cache_devices
    queries = streams * (1.0 + replica.workload.draft_tokens)
    operations = queries * operation_count.latent_operations_per_token(model, context) / replica.layout.tensor
    return (
        cache / (bandwidth * replica.capped_efficiency_factor("cache_bandwidth")),
        operations / (replica.half_precision_flops * replica.capped_efficiency_factor("latent_compute"))
        if operations
        else 0.0,
    )


def _seconds_of_operations(replica: Replica, operations: float) -> float:
    if replica.device_peak_flops is None:
        return 0.0
    return operations / decode_flops(replica)


def decode_flops(replica: Replica) -> float:
    """Return the FLOP/s of one device in decode steps."""
    nominal = replica.device_peak_flops or 1.0
    law = replica.saturation_factor("compute_law", nominal, REFERENCE_FLOPS)
    return nominal * min(replica.efficiency_factor("decode_compute") * law, MAX_SHARE)
