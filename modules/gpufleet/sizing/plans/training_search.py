"""The fastest way to lay a training on devices: layouts, shardings and micro-batches, of which the best is taken.

A layout has to be worth its complication: it is taken for a simpler one only where it is faster by ``WORTH_IT``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from gpufleet.sizing import parallelism
from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.memory.estimate import recomputed
from gpufleet.sizing.model_engine import engine_on
from gpufleet.sizing.node_hardware import joined
from gpufleet.sizing.plans.placement import Placed, held, shardings
from gpufleet.sizing.speed.efficiency import learned
from gpufleet.sizing.speed.replica import Setting
from gpufleet.sizing.speed.training import parts, tokens_per_step
from gpufleet.sizing.workload import Workload

MICRO_BATCHES = (2, 4, 8, 16)
WORTH_IT = 1.02  # a larger micro-batch costs memory, another layout trouble: two per cent are not worth it


def fastest(
    workload: Workload, hardware: Hardware, devices: int, *, open_batch: bool = False, quick: bool = False
) -> Placed:
    """Return the fastest training that fits on at most so many devices; where none fits, the simplest."""
    runs_on = engine_on(hardware, workload, parallelism.nodes_for(hardware, devices))
    workload = replace(workload, engine=runs_on.name)
    best: Placed | None = None
    simplest: tuple[Workload, Layout] | None = None
    speed, refused = 0.0, None
    for asked, layout in _ways(workload, hardware, devices, quick=quick):
        simplest = simplest or (asked, layout)
        degrees = (layout.tensor, layout.pipeline, asked.training.sharding)
        if degrees == refused:
            continue  # what does not fit over all devices fits over fewer even less
        most = ceiling(asked, hardware, layout, open_batch=open_batch)
        if best is not None and most <= speed * WORTH_IT:
            continue
        placed = held(asked, hardware, layout)
        if not placed.fits:
            refused = degrees
            continue
        found = tuned(placed, most) if open_batch else placed
        rate = found.speed().tokens_per_s or 0.0
        if best is None or rate > speed * WORTH_IT:
            best, speed = found, rate
    if simplest is None:
        raise ValueError(f"no layout on {devices} devices")
    return best or held(simplest[0], hardware, simplest[1])


def tuned(placed: Placed, most: float = inf) -> Placed:
    """Return a training with the micro-batch that is fastest and fits; none is tried once ``most`` is near."""
    if not placed.fits:
        return placed
    best, speed = placed, placed.speed().tokens_per_s or 0.0
    for batch in MICRO_BATCHES:
        if speed * WORTH_IT >= most:
            break
        more = placed.with_batch(batch)
        faster = (more.speed().tokens_per_s or 0.0) if more.fits else 0.0
        if faster <= speed * WORTH_IT:
            break
        best, speed = more, faster
    return best


def _ways(
    workload: Workload, hardware: Hardware, devices: int, *, quick: bool
) -> Iterator[tuple[Workload, Layout]]:
    for layout in parallelism.training(workload, hardware, devices, quick=quick):
        for asked in shardings(workload, layout.devices):
            yield asked, layout


def ceiling(workload: Workload, hardware: Hardware, layout: Layout, *, open_batch: bool) -> float:
    """Return tokens per second of a layout with the largest micro-batch and nothing computed twice: all it can be."""
    training = recomputed(workload.training, "none")
    batch = MICRO_BATCHES[-1] if open_batch else workload.batch
    work, joint = replace(workload, batch=batch, training=training), joined(hardware, layout.devices)
    easiest = Setting(work, layout, joint, learned())
    found = parts(easiest)
    return tokens_per_step(easiest) / found.seconds if found else 0.0
