"""Generation: one token of every stream per step, limited by what the step must read."""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.sizing.speed import operation_count
from gpufleet.sizing.speed.device import EAGER_ENGINES
from gpufleet.sizing.speed.replica import MAX_SHARE, REFERENCE_FLOPS, Replica, combine_overlapping


@dataclass(frozen=True)
class DecodeStep:
    """Seconds of one step and of its parts."""

    memory: float
    compute: float
    launch: float
    all_reduce: float
    eager_launch: float = 0.0  # launched from Python while the device works on what came before

    @property
    def seconds(self) -> float:
        """Return the whole step."""
        return (
            combine_overlapping(self.memory, self.compute, self.eager_launch) + self.launch + self.all_reduce
        )


def decode_step(setting: Replica, streams: float, context: float) -> DecodeStep | None:
    """Return what generating one token for each of so many streams takes, None without a known bandwidth."""
    if setting.peak_bandwidth is None:
        return None
    tensor = setting.layout.tensor
    return DecodeStep(
        memory=_memory_seconds(setting, streams, context) / tensor,
        compute=_compute_seconds(setting, streams) / tensor,
        launch=_launch_seconds(setting, streams),
        all_reduce=setting.all_reduce_seconds(streams) + setting.pipeline_hop_seconds(streams),
        eager_launch=setting.model.layers * setting.factor("eager_seconds")
        if setting.engine in EAGER_ENGINES
        else 0.0,
    )


def _launch_seconds(setting: Replica, streams: float) -> float:
    """Return what waits between kernels: of each layer, more where it chooses experts, of the step, of each stream."""
    layers = setting.model.layers * setting.factor("layer_seconds")
    experts = setting.expert_layers * setting.factor("expert_seconds") if setting.expert_layers else 0.0
    return layers + experts + setting.factor("step_seconds") + streams * setting.factor("stream_seconds")


def _memory_seconds(setting: Replica, streams: float, context: float) -> float:
    model, bandwidth = setting.model, setting.peak_bandwidth or 1.0
    read = operation_count.weight_bytes_read(model, setting.precision, streams)
    cache = streams * operation_count.kv_cache_bytes(model, setting.kv_precision, context)
    rate = setting.weight_rate * (setting.capped_factor("expert_bandwidth") if setting.expert_layers else 1.0)
    return read / rate + cache / (bandwidth * setting.capped_factor("cache_bandwidth"))


def _compute_seconds(setting: Replica, streams: float) -> float:
    if setting.peak_flops is None:
        return 0.0
    law = setting.saturation_factor("compute_law", setting.peak_flops, REFERENCE_FLOPS)
    rate = setting.peak_flops * min(setting.factor("decode_compute") * law, MAX_SHARE)
    return streams * operation_count.forward_operations(setting.model) / rate
