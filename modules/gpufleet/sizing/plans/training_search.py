"""The fastest way to lay a training on devices: layouts, shardings and micro-batches, of which the best is taken.

A layout has to be worth its complication: it is taken for a simpler one only where it is faster by ``WORTH_IT``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from gpufleet.sizing import parallelism
from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.memory.estimate import with_recompute
from gpufleet.sizing.model_engine import choose_engine
from gpufleet.sizing.node_hardware import with_link_for
from gpufleet.sizing.plans.placement import Placement, place_on_layout, sharding_variants
from gpufleet.sizing.speed.efficiency import load_efficiency
from gpufleet.sizing.speed.replica import Replica
from gpufleet.sizing.speed.training import tokens_per_step, training_step
from gpufleet.sizing.workload import Workload

MICRO_BATCHES = (2, 4, 8, 16)
WORTH_IT = 1.02  # a larger micro-batch costs memory, another layout trouble: two per cent are not worth it


def find_fastest_training(
    workload: Workload, hardware: Hardware, devices: int, *, open_batch: bool = False, quick: bool = False
) -> Placement:
    """Return the fastest training that fits on at most so many devices; where none fits, the simplest."""
    runs_on = choose_engine(hardware, workload, parallelism.count_nodes(hardware, devices))
    workload = replace(workload, engine=runs_on.name)
    best: Placement | None = None
    simplest: tuple[Workload, Layout] | None = None
    speed, refused = 0.0, None
    for variant, layout in _layouts_and_shardings(workload, hardware, devices, quick=quick):
        simplest = simplest or (variant, layout)
        degrees = (layout.tensor, layout.pipeline, variant.training.sharding)
        if degrees == refused:
            continue  # what does not fit over all devices fits over fewer even less
        max_rate = max_tokens_per_s(variant, hardware, layout, open_batch=open_batch)
        if best is not None and max_rate <= speed * WORTH_IT:
            continue
        placement = place_on_layout(variant, hardware, layout)
        if not placement.fits:
            refused = degrees
            continue
        tuned = tune_micro_batch(placement, max_rate) if open_batch else placement
        rate = tuned.speed().tokens_per_s or 0.0
        if best is None or rate > speed * WORTH_IT:
            best, speed = tuned, rate
    if simplest is None:
        raise ValueError(f"no layout on {devices} devices")
    return best or place_on_layout(simplest[0], hardware, simplest[1])


def tune_micro_batch(placement: Placement, max_rate: float = inf) -> Placement:
    """Return a training with the micro-batch that is fastest and fits; none is tried once ``most`` is near."""
    if not placement.fits:
        return placement
    best, speed = placement, placement.speed().tokens_per_s or 0.0
    for batch in MICRO_BATCHES:
        if speed * WORTH_IT >= max_rate:
            break
        more = placement.with_batch(batch)
        faster = (more.speed().tokens_per_s or 0.0) if more.fits else 0.0
        if faster <= speed * WORTH_IT:
            break
        best, speed = more, faster
    return best


def _layouts_and_shardings(
    workload: Workload, hardware: Hardware, devices: int, *, quick: bool
) -> Iterator[tuple[Workload, Layout]]:
    for layout in parallelism.training_layouts(workload, hardware, devices, quick=quick):
        for variant in sharding_variants(workload, layout.devices):
            yield variant, layout


def max_tokens_per_s(workload: Workload, hardware: Hardware, layout: Layout, *, open_batch: bool) -> float:
    """Return tokens per second of a layout with the largest micro-batch and nothing computed twice: all it can be."""
    training = with_recompute(workload.training, "none")
    batch = MICRO_BATCHES[-1] if open_batch else workload.batch
    work, joint = replace(workload, batch=batch, training=training), with_link_for(hardware, layout.devices)
    easiest = Replica(work, layout, joint, load_efficiency())
    step = training_step(easiest)
    return tokens_per_step(easiest) / step.seconds if step else 0.0
