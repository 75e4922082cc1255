"""Decode: one token of every stream per step, mostly limited by memory reads."""

from __future__ import annotations

from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.memory.kv_cache import kv_cache_bytes_read
from gpufleet.sizing.speed import operation_count
from gpufleet.sizing.speed.device import EAGER_ENGINES
from gpufleet.sizing.speed.replica import MAX_SHARE, REFERENCE_FLOPS, Replica, combine_overlapping_seconds


@dataclass(frozen=True)
class DecodeStepTime:
    """Seconds of one decode step by component."""

    memory: float
    compute: float
    launch: float
    all_reduce: float
    eager_launch: float = 0.0  # kernel launches from Python that overlap with device work

    @property
    def total_seconds(self) -> float:
        """Return the seconds of the step."""
        return (
            combine_overlapping_seconds(self.memory, self.compute, self.eager_launch)
            + self.launch
            + self.all_reduce
        )


def estimate_decode_step_time(replica: Replica, streams: float, context: float) -> DecodeStepTime | None:
    """Return the time of one decode step for so many streams, None without a known bandwidth."""
    if replica.peak_bandwidth_bytes_per_s is None:
        return None
    tensor = replica.layout.tensor
    return DecodeStepTime(
        memory=_memory_seconds(replica, streams, context) / tensor,
        compute=_compute_seconds(replica, streams) / tensor,
        launch=_launch_seconds(replica, streams),
        all_reduce=replica.all_reduce_seconds(streams) + replica.pipeline_hop_seconds(streams),
        eager_launch=replica.model.layers * replica.efficiency_factor("eager_seconds")
        if replica.calibrated_engine in EAGER_ENGINES
        else 0.0,
    )


def _launch_seconds(replica: Replica, streams: float) -> float:
    """Return launch overhead: per layer, per expert layer, per step and per stream."""
    layers = replica.model.layers * replica.efficiency_factor("layer_seconds")
    experts = (
        replica.expert_layer_count * replica.efficiency_factor("expert_seconds")
        if replica.expert_layer_count
        else 0.0
    )
    return (
        layers
        + experts
        + replica.efficiency_factor("step_seconds")
        + streams * replica.efficiency_factor("stream_seconds")
    )


def _memory_seconds(replica: Replica, streams: float, context: float) -> float:
    model, bandwidth = replica.model, replica.peak_bandwidth_bytes_per_s or 1.0
    read = operation_count.weight_bytes_read(model, replica.weight_precision, streams)
    cache = streams * kv_cache_bytes_read(model, context, replica.kv_precision)
    rate = replica.effective_weight_bytes_per_s * (
        replica.capped_efficiency_factor("expert_bandwidth") if replica.expert_layer_count else 1.0
    )
    return read / rate + cache / (bandwidth * replica.capped_efficiency_factor("cache_bandwidth"))


def _compute_seconds(replica: Replica, streams: float) -> float:
    if replica.device_peak_flops is None:
        return 0.0
    law = replica.saturation_factor("compute_law", replica.device_peak_flops, REFERENCE_FLOPS)
    rate = replica.device_peak_flops * min(replica.efficiency_factor("decode_compute") * law, MAX_SHARE)
    return streams * operation_count.forward_operations_per_token(replica.model) / rate
