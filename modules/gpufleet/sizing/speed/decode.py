"""Generation: one token of every stream per step, limited by what the step must read."""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.sizing.speed import operation_count
from gpufleet.sizing.speed.device import EAGER
from gpufleet.sizing.speed.replica import MOST, USUAL_RATE, Setting, together


@dataclass(frozen=True)
class Step:
    """Seconds of one step and of its parts."""

    memory: float
    compute: float
    launch: float
    exchange: float
    ahead: float = 0.0  # launched from Python while the device works on what came before

    @property
    def seconds(self) -> float:
        """Return the whole step."""
        return together(self.memory, self.compute, self.ahead) + self.launch + self.exchange


def step(setting: Setting, streams: float, context: float) -> Step | None:
    """Return what generating one token for each of so many streams takes, None without a known bandwidth."""
    if setting.bandwidth is None:
        return None
    tensor = setting.layout.tensor
    return Step(
        memory=_memory(setting, streams, context) / tensor,
        compute=_compute(setting, streams) / tensor,
        launch=_launch(setting, streams),
        exchange=setting.exchange(streams) + setting.hops(streams),
        ahead=setting.model.layers * setting.factor("eager_seconds") if setting.engine in EAGER else 0.0,
    )


def _launch(setting: Setting, streams: float) -> float:
    """Return what waits between kernels: of each layer, more where it chooses experts, of the step, of each stream."""
    layers = setting.model.layers * setting.factor("layer_seconds")
    experts = setting.expert_layers * setting.factor("expert_seconds") if setting.expert_layers else 0.0
    return layers + experts + setting.factor("step_seconds") + streams * setting.factor("stream_seconds")


def _memory(setting: Setting, streams: float, context: float) -> float:
    model, bandwidth = setting.model, setting.bandwidth or 1.0
    read = operation_count.bytes_read(model, setting.precision, streams)
    cache = streams * operation_count.cache_bytes(model, setting.cache_precision, context)
    rate = setting.weight_rate * (setting.share("expert_bandwidth") if setting.expert_layers else 1.0)
    return read / rate + cache / (bandwidth * setting.share("cache_bandwidth"))


def _compute(setting: Setting, streams: float) -> float:
    if setting.flops is None:
        return 0.0
    law = setting.law("compute_law", setting.flops, USUAL_RATE)
    rate = setting.flops * min(setting.factor("decode_compute") * law, MOST)
    return streams * operation_count.operations(setting.model) / rate
