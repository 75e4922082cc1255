"""Predictions: one workload, one layout, one kind of hardware in; speeds with their interval out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.memory import choose_recompute
from gpufleet.sizing.speed import capacity, decode, device, prefill, training
from gpufleet.sizing.speed.efficiency import Efficiency, load_efficiency
from gpufleet.sizing.speed.interval import find_interval
from gpufleet.sizing.speed.power import estimate_watts
from gpufleet.sizing.speed.replica import Replica
from gpufleet.sizing.speed.result import Limit, Speed
from gpufleet.sizing.workload import Workload


@dataclass(frozen=True)
class Generation:
    """What a replica does when it serves: rates, and which streams it really runs at once."""

    tokens_per_s: float
    per_stream: float
    prompt_tokens_per_s: float | None
    time_to_first_token_s: float | None
    streams: float
    prompt_share: float  # of the time
    step: decode.DecodeStep


def estimate_speed(workload: Workload, layout: Layout, hardware: Hardware) -> Speed:
    """Return the predicted speed of one replica with its 80 % interval."""
    asked = build_replica(workload, layout, hardware)
    return _training_speed(asked) if workload.is_training else _inference_speed(asked)


def build_replica(
    workload: Workload, layout: Layout, hardware: Hardware, efficiency: Efficiency | None = None
) -> Replica:
    """Return the question with the factors that apply; data-parallel inference is one replica of several."""
    if workload.is_training:
        workload = choose_recompute(workload, layout, hardware)
    else:
        layout = replace(layout, data=1)
    return Replica(workload, layout, hardware, efficiency or load_efficiency())


def estimate_generation(asked: Replica) -> Generation | None:
    """Return the rates of one replica under the workload's streams, None without a known bandwidth."""
    work = asked.workload
    streams = min(float(work.batch), max(capacity.max_streams(asked), 1.0))
    step = decode.decode_step(asked, streams, work.input_tokens + work.output_tokens / 2)
    if step is None:
        return None
    prompts = prefill.prefill_seconds(asked, streams, work.input_tokens)
    single = prefill.prefill_seconds(asked, 1.0, work.input_tokens) if work.input_tokens else None
    busy = (prompts or 0.0) if device.is_server_engine(asked.engine) else 0.0
    generating = max(work.output_tokens, 1) * step.seconds
    return Generation(
        tokens_per_s=streams * max(work.output_tokens, 1) / (generating + busy),
        per_stream=1.0 / step.seconds,
        prompt_tokens_per_s=work.input_tokens / single if single else None,
        time_to_first_token_s=prompts + step.seconds if prompts is not None else None,
        streams=streams,
        prompt_share=busy / (generating + busy),
        step=step,
    )


def training_tokens_per_s(asked: Replica) -> float | None:
    """Return the tokens per second that the replica trains on."""
    parts = training.training_step(asked)
    return training.tokens_per_step(asked) / parts.seconds if parts else None


def _inference_speed(asked: Replica) -> Speed:
    found = estimate_generation(asked)
    if found is None:
        part = asked.hardware.accelerator.name
        return Speed(
            None, None, None, None, None, None, None, None, (f"no memory bandwidth is known of {part}",)
        )
    metric = "throughput" if asked.workload.batch > 1 or device.is_server_engine(asked.engine) else "decode"
    bounds = find_interval(metric, asked.device_class)
    limit = _find_limit(asked, found)
    return Speed(
        tokens_per_s=found.tokens_per_s,
        low=found.tokens_per_s * bounds.low,
        high=found.tokens_per_s * bounds.high,
        per_stream=found.per_stream,
        prompt_tokens_per_s=found.prompt_tokens_per_s,
        time_to_first_token_s=found.time_to_first_token_s,
        limit=limit,
        watts=_replica_watts(asked, 1.0 - found.step.all_reduce / found.step.seconds, limit),
        notes=tuple(_speed_notes(asked, found, known=bounds.is_measured)),
    )


def _find_limit(asked: Replica, found: Generation) -> Limit:
    step = found.step
    if found.prompt_share > 0.5:  # noqa: PLR2004 - more than half of the time
        return "compute"
    parts: dict[Limit, float] = {
        "memory bandwidth": step.memory,
        "compute": step.compute,
        "launch overhead": step.launch,
        asked.link_limit: step.all_reduce,
    }
    return max(parts, key=lambda name: parts[name])


def _replica_watts(asked: Replica, busy: float, limit: str) -> float | None:
    layout = asked.layout
    devices = layout.tensor * layout.pipeline * (layout.data if asked.workload.is_training else 1)
    together = (
        1.0 if device.is_server_engine(asked.engine) or asked.workload.is_training else 1.0 / layout.pipeline
    )
    return estimate_watts(asked.hardware.accelerator, devices, busy * together, limit)


def _speed_notes(asked: Replica, found: Generation, *, known: bool) -> list[str]:
    notes = []
    if found.streams < asked.workload.batch:
        notes.append(
            f"memory holds {found.streams:.0f} of {asked.workload.batch} streams at once; the others wait"
        )
    if asked.peak_flops is None:
        notes.append("no rate of operations is known: prompts are left out")
    return notes + _interval_note(asked, known=known)


def _interval_note(asked: Replica, *, known: bool) -> list[str]:
    return (
        []
        if known
        else [f"few measurements of devices like this ({asked.device_class}): a wider interval from all"]
    )


def _training_speed(asked: Replica) -> Speed:
    parts = training.training_step(asked)
    if parts is None:
        part = asked.hardware.accelerator.name
        return Speed(
            None, None, None, None, None, None, None, None, (f"no rate of operations is known of {part}",)
        )
    total = training.tokens_per_step(asked) / parts.seconds
    bounds = find_interval("training", asked.device_class)
    limit = parts.limit(asked)
    return Speed(
        tokens_per_s=total,
        low=total * bounds.low,
        high=total * bounds.high,
        per_stream=None,
        prompt_tokens_per_s=None,
        time_to_first_token_s=None,
        limit=limit,
        watts=_replica_watts(asked, parts.compute / parts.seconds, limit),
        notes=tuple(_interval_note(asked, known=bounds.is_measured)),
    )
