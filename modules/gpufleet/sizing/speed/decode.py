"""Generation: one token of every stream per step, limited by what the step must read."""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.sizing.speed import traffic
from gpufleet.sizing.speed.step import MOST, USUAL_RATE, Setting, together


@dataclass(frozen=True)
class Step:
    """Seconds of one step and of its parts."""

    memory: float
    compute: float
    launch: float
    exchange: float

    @property
    def seconds(self) -> float:
        """Return the whole step."""
        return together(self.memory, self.compute) + self.launch + self.exchange


def step(setting: Setting, streams: float, context: float) -> Step | None:
    """Return what generating one token for each of so many streams takes, None without a known bandwidth."""
    if setting.bandwidth is None:
        return None
    tensor = setting.layout.tensor
    return Step(
        memory=_memory(setting, streams, context) / tensor,
        compute=_compute(setting, streams) / tensor,
        launch=setting.model.layers * setting.factor("layer_seconds")
        + setting.factor("step_seconds")
        + streams * setting.factor("stream_seconds"),
        exchange=setting.exchange(streams) + setting.hops(streams),
    )


def _memory(setting: Setting, streams: float, context: float) -> float:
    model, work, bandwidth = setting.model, setting.workload, setting.bandwidth or 1.0
    read = traffic.bytes_read(model, work.precision, streams)
    cache = streams * traffic.cache_bytes(model, setting.cache_precision, context)
    return read / setting.weight_rate + cache / (bandwidth * setting.share("cache_bandwidth"))


def _compute(setting: Setting, streams: float) -> float:
    if setting.flops is None:
        return 0.0
    law = setting.law("compute_law", setting.flops, USUAL_RATE)
    rate = setting.flops * min(setting.factor("decode_compute") * law, MOST)
    return streams * traffic.operations(setting.model) / rate
