"""Speed prediction for one workload, one layout and one kind of hardware."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpufleet.sizing.hardware import Hardware, ParallelLayout
from gpufleet.sizing.memory.estimate import choose_recompute
from gpufleet.sizing.speed import capacity, decode, device, prefill, training
from gpufleet.sizing.speed.efficiency import EfficiencyFactors, load_efficiency_factors
from gpufleet.sizing.speed.interval import find_speed_interval
from gpufleet.sizing.speed.power import estimate_watts
from gpufleet.sizing.speed.replica import Replica
from gpufleet.sizing.speed.result import Limit, SpeedEstimate
from gpufleet.sizing.workload import Workload


@dataclass(frozen=True)
class GenerationRates:
    """Generation rates of a replica, and the streams that it runs at once."""

    tokens_per_s: float
    per_stream: float
    prompt_tokens_per_s: float | None
    time_to_first_token_s: float | None
    streams: float
    prompt_share: float  # of the time
    step: decode.DecodeStepTime


def estimate_speed(workload: Workload, layout: ParallelLayout, hardware: Hardware) -> SpeedEstimate:
    """Return the predicted speed of one replica with its 80 % interval."""
    replica = build_replica(workload, layout, hardware)
    return _training_speed(replica) if workload.is_training else _inference_speed(replica)


def build_replica(
    workload: Workload,
    layout: ParallelLayout,
    hardware: Hardware,
    efficiency: EfficiencyFactors | None = None,
) -> Replica:
    """Return the replica with its efficiency factors; data-parallel inference counts one of the replicas."""
    if workload.is_training:
        workload = choose_recompute(workload, layout, hardware)
    elif layout.data != 1:
        layout = replace(layout, data=1)
    return Replica(workload, layout, hardware, efficiency or load_efficiency_factors())


def estimate_generation_rates(replica: Replica) -> GenerationRates | None:
    """Return the generation rates of one replica, None without a known bandwidth."""
    work = replica.workload
    streams = min(float(work.batch), max(capacity.max_concurrent_streams(replica), 1.0))
    step = decode.estimate_decode_step_time(replica, streams, work.input_tokens + work.output_tokens / 2)
    if step is None:
        return None
    prompts = prefill.estimate_prefill_seconds(replica, streams, work.input_tokens)
    single = prompts if streams == 1.0 else prefill.estimate_prefill_seconds(replica, 1.0, work.input_tokens)
    prompt_seconds = (prompts or 0.0) if device.is_server_engine(replica.calibrated_engine) else 0.0
    decode_seconds = max(work.output_tokens, 1) * step.total_seconds
    return GenerationRates(
        tokens_per_s=streams * max(work.output_tokens, 1) / (decode_seconds + prompt_seconds),
        per_stream=1.0 / step.total_seconds,
        prompt_tokens_per_s=work.input_tokens / single if single else None,
        time_to_first_token_s=prompts + step.total_seconds if prompts is not None else None,
        streams=streams,
        prompt_share=prompt_seconds / (decode_seconds + prompt_seconds),
        step=step,
    )


def training_tokens_per_s(replica: Replica) -> float | None:
    """Return the tokens per second that the replica trains on."""
    parts = training.estimate_training_step_time(replica)
    return training.training_tokens_per_step(replica) / parts.total_seconds if parts else None


def _inference_speed(replica: Replica) -> SpeedEstimate:
    generation = estimate_generation_rates(replica)
    if generation is None:
        part = replica.hardware.accelerator.name
        return SpeedEstimate(
            None, None, None, None, None, None, None, None, (f"the memory bandwidth of {part} is not known",)
        )
    metric = (
        "throughput"
        if replica.workload.batch > 1 or device.is_server_engine(replica.calibrated_engine)
        else "decode"
    )
    bounds = find_speed_interval(metric, replica.device_class)
    limit = _find_limit(replica, generation)
    return SpeedEstimate(
        tokens_per_s=generation.tokens_per_s,
        low=generation.tokens_per_s * bounds.low,
        high=generation.tokens_per_s * bounds.high,
        per_stream=generation.per_stream,
        prompt_tokens_per_s=generation.prompt_tokens_per_s,
        time_to_first_token_s=generation.time_to_first_token_s,
        limit=limit,
        watts=_replica_watts(
            replica, 1.0 - generation.step.all_reduce / generation.step.total_seconds, limit
        ),
        notes=tuple(_speed_notes(replica, generation, known=bounds.is_measured)),
    )


def _find_limit(replica: Replica, generation: GenerationRates) -> Limit:
    step = generation.step
    if generation.prompt_share > 0.5:  # noqa: PLR2004 - more than half of the time
        return "compute"
    parts: dict[Limit, float] = {
        "memory bandwidth": step.memory,
        "compute": step.compute,
        "launch overhead": step.launch,
        replica.link_limit_name: step.all_reduce,
    }
    return max(parts, key=lambda name: parts[name])


def _replica_watts(replica: Replica, busy: float, limit: str) -> float | None:
    layout = replica.layout
    devices = layout.tensor * layout.pipeline * (layout.data if replica.workload.is_training else 1)
    busy_stages = (
        1.0
        if device.is_server_engine(replica.calibrated_engine) or replica.workload.is_training
        else 1.0 / layout.pipeline
    )
    return estimate_watts(replica.hardware.accelerator, devices, busy * busy_stages, limit)


def _speed_notes(replica: Replica, generation: GenerationRates, *, known: bool) -> list[str]:
    notes = []
    if generation.streams < replica.workload.batch:
        notes.append(
            f"memory holds {generation.streams:.0f} of {replica.workload.batch} streams at once; the others wait"
        )
    if replica.device_peak_flops is None:
        notes.append("the compute rate is not known: prompt time is left out")
    return notes + _interval_note(replica, known=known)


def _interval_note(replica: Replica, *, known: bool) -> list[str]:
    return (
        []
        if known
        else [
            f"few measurements of this device class ({replica.device_class}): a wider interval, from all classes"
        ]
    )


def find_training_regime(replica: Replica) -> str:
    """Return the regime whose errors are alike: the device class, mixtures of experts apart."""
    return f"{replica.device_class}, mixture" if replica.expert_layer_count else replica.device_class


def _training_speed(replica: Replica) -> SpeedEstimate:
    parts = training.estimate_training_step_time(replica)
    if parts is None:
        part = replica.hardware.accelerator.name
        return SpeedEstimate(
            None, None, None, None, None, None, None, None, (f"the compute rate of {part} is not known",)
        )
    total = training.training_tokens_per_step(replica) / parts.total_seconds
    bounds = find_speed_interval("training", find_training_regime(replica))
    limit = parts.find_bottleneck(replica)
    return SpeedEstimate(
        tokens_per_s=total,
        low=total * bounds.low,
        high=total * bounds.high,
        per_stream=None,
        prompt_tokens_per_s=None,
        time_to_first_token_s=None,
        limit=limit,
        watts=_replica_watts(replica, parts.compute / parts.total_seconds, limit),
        notes=tuple(_interval_note(replica, known=bounds.is_measured)),
    )
