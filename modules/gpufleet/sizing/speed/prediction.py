"""Predictions: one workload, one layout, one kind of hardware in; speeds with their interval out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.memory import settled
from gpufleet.sizing.speed import capacity, decode, device, prefill, training
from gpufleet.sizing.speed.efficiency import Efficiency, learned
from gpufleet.sizing.speed.interval import interval
from gpufleet.sizing.speed.power import watts
from gpufleet.sizing.speed.replica import Setting
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
    step: decode.Step


def speed(workload: Workload, layout: Layout, hardware: Hardware) -> Speed:
    """Return the predicted speed of one replica with its 80 % interval."""
    asked = setting(workload, layout, hardware)
    return _training(asked) if workload.trains else _inference(asked)


def setting(
    workload: Workload, layout: Layout, hardware: Hardware, efficiency: Efficiency | None = None
) -> Setting:
    """Return the question with the factors that apply; data-parallel inference is one replica of several."""
    if workload.trains:
        workload = settled(workload, layout, hardware)
    else:
        layout = replace(layout, data=1)
    return Setting(workload, layout, hardware, efficiency or learned())


def generation(asked: Setting) -> Generation | None:
    """Return the rates of one replica under the workload's streams, None without a known bandwidth."""
    work = asked.workload
    streams = min(float(work.batch), max(capacity.streams(asked), 1.0))
    step = decode.step(asked, streams, work.input_tokens + work.output_tokens / 2)
    if step is None:
        return None
    prompts = prefill.seconds(asked, streams, work.input_tokens)
    single = prefill.seconds(asked, 1.0, work.input_tokens) if work.input_tokens else None
    busy = (prompts or 0.0) if device.serves(asked.engine) else 0.0
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


def trained_tokens_per_s(asked: Setting) -> float | None:
    """Return the tokens per second that the replica trains on."""
    parts = training.parts(asked)
    return training.tokens_per_step(asked) / parts.seconds if parts else None


def _inference(asked: Setting) -> Speed:
    found = generation(asked)
    if found is None:
        part = asked.hardware.accelerator.name
        return Speed(
            None, None, None, None, None, None, None, None, (f"no memory bandwidth is known of {part}",)
        )
    metric = "throughput" if asked.workload.batch > 1 or device.serves(asked.engine) else "decode"
    bounds = interval(metric, asked.kind)
    limit = _limit(asked, found)
    return Speed(
        tokens_per_s=found.tokens_per_s,
        low=found.tokens_per_s * bounds.low,
        high=found.tokens_per_s * bounds.high,
        per_stream=found.per_stream,
        prompt_tokens_per_s=found.prompt_tokens_per_s,
        time_to_first_token_s=found.time_to_first_token_s,
        limit=limit,
        watts=_watts(asked, 1.0 - found.step.exchange / found.step.seconds, limit),
        notes=tuple(_notes(asked, found, known=bounds.known)),
    )


def _limit(asked: Setting, found: Generation) -> Limit:
    step = found.step
    if found.prompt_share > 0.5:  # noqa: PLR2004 - more than half of the time
        return "compute"
    parts: dict[Limit, float] = {
        "memory bandwidth": step.memory,
        "compute": step.compute,
        "launch overhead": step.launch,
        asked.joined_by: step.exchange,
    }
    return max(parts, key=lambda name: parts[name])


def _watts(asked: Setting, busy: float, limit: str) -> float | None:
    layout = asked.layout
    devices = layout.tensor * layout.pipeline * (layout.data if asked.workload.trains else 1)
    together = 1.0 if device.serves(asked.engine) or asked.workload.trains else 1.0 / layout.pipeline
    return watts(asked.hardware.accelerator, devices, busy * together, limit)


def _notes(asked: Setting, found: Generation, *, known: bool) -> list[str]:
    notes = []
    if found.streams < asked.workload.batch:
        notes.append(
            f"memory holds {found.streams:.0f} of {asked.workload.batch} streams at once; the others wait"
        )
    if asked.flops is None:
        notes.append("no rate of operations is known: prompts are left out")
    return notes + _unmeasured(asked, known=known)


def _unmeasured(asked: Setting, *, known: bool) -> list[str]:
    return (
        [] if known else [f"few measurements of devices like this ({asked.kind}): a wider interval from all"]
    )


def _training(asked: Setting) -> Speed:
    parts = training.parts(asked)
    if parts is None:
        part = asked.hardware.accelerator.name
        return Speed(
            None, None, None, None, None, None, None, None, (f"no rate of operations is known of {part}",)
        )
    total = training.tokens_per_step(asked) / parts.seconds
    bounds = interval("training", asked.kind)
    limit = parts.limit(asked)
    return Speed(
        tokens_per_s=total,
        low=total * bounds.low,
        high=total * bounds.high,
        per_stream=None,
        prompt_tokens_per_s=None,
        time_to_first_token_s=None,
        limit=limit,
        watts=_watts(asked, parts.compute / parts.seconds, limit),
        notes=tuple(_unmeasured(asked, known=bounds.known)),
    )
