"""Search for the fastest training: layouts, shardings and micro-batches.

A more complex layout replaces a simpler one only if it is faster by the factor ``WORTH_IT``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from gpufleet.sizing import parallelism
from gpufleet.sizing.hardware import Hardware, ParallelLayout
from gpufleet.sizing.memory.estimate import with_recompute
from gpufleet.sizing.model_engine import choose_model_engine
from gpufleet.sizing.node_hardware import with_link_for_device_count
from gpufleet.sizing.plans.placement import (
    Placement,
    list_sharded_workloads,
    place_workload_on_layout,
    with_engine,
)
from gpufleet.sizing.speed.efficiency import load_efficiency_factors
from gpufleet.sizing.speed.replica import Replica
from gpufleet.sizing.speed.training import estimate_training_step_time, training_tokens_per_step
from gpufleet.sizing.workload import Workload

MICRO_BATCHES = (2, 4, 8, 16)
WORTH_IT = 1.02  # below two per cent, more memory or a more complex layout is not worth it


def find_fastest_training_placement(
    workload: Workload,
    hardware: Hardware,
    devices: int,
    *,
    can_choose_batch: bool = False,
    quick: bool = False,
) -> Placement:
    """Return the fastest training that fits on at most so many devices; the simplest if none fits."""
    engine = choose_model_engine(hardware, workload, parallelism.count_nodes_for_devices(hardware, devices))
    workload = with_engine(workload, engine.name)
    best: Placement | None = None
    simplest: tuple[Workload, ParallelLayout] | None = None
    speed, refused = 0.0, None
    for variant, layout in _layouts_and_shardings(workload, hardware, devices, quick=quick):
        simplest = simplest or (variant, layout)
        degrees = (layout.tensor, layout.pipeline, variant.training.sharding)
        if degrees == refused:
            continue  # a sharding that does not fit on all devices does not fit on fewer
        max_rate = max_training_tokens_per_s(variant, hardware, layout, can_choose_batch=can_choose_batch)
        if best is not None and max_rate <= speed * WORTH_IT:
            continue
        placement = place_workload_on_layout(variant, hardware, layout, engine)
        if not placement.fits_in_memory:
            refused = degrees
            continue
        tuned = tune_micro_batch(placement, max_rate) if can_choose_batch else placement
        rate = tuned.predict_speed().tokens_per_s or 0.0
        if best is None or rate > speed * WORTH_IT:
            best, speed = tuned, rate
    if simplest is None:
        raise ValueError(f"no layout on {devices} devices")
    return best or place_workload_on_layout(simplest[0], hardware, simplest[1], engine)


def tune_micro_batch(placement: Placement, max_rate: float = inf) -> Placement:
    """Return a training with the fastest micro-batch that fits; stop when ``max_rate`` is nearly reached."""
    if not placement.fits_in_memory:
        return placement
    best, speed = placement, placement.predict_speed().tokens_per_s or 0.0
    for batch in MICRO_BATCHES:
        if speed * WORTH_IT >= max_rate:
            break
        more = placement.with_batch(batch)
        faster = (more.predict_speed().tokens_per_s or 0.0) if more.fits_in_memory else 0.0
        if faster <= speed * WORTH_IT:
            break
        best, speed = more, faster
    return best


def _layouts_and_shardings(
    workload: Workload, hardware: Hardware, devices: int, *, quick: bool
) -> Iterator[tuple[Workload, ParallelLayout]]:
    for layout in parallelism.list_training_layouts(workload, hardware, devices, quick=quick):
        for variant in list_sharded_workloads(workload, layout.devices):
            yield variant, layout


def max_training_tokens_per_s(
    workload: Workload, hardware: Hardware, layout: ParallelLayout, *, can_choose_batch: bool
) -> float:
    """Return an upper bound of tokens per second: the largest micro-batch without recomputation."""
    training = with_recompute(workload.training, "none")
    batch = MICRO_BATCHES[-1] if can_choose_batch else workload.batch
    work, linked_hardware = (
        replace(workload, batch=batch, training=training),
        with_link_for_device_count(hardware, layout.devices),
    )
    upper_bound = Replica(work, layout, linked_hardware, load_efficiency_factors())
    step = estimate_training_step_time(upper_bound)
    return training_tokens_per_step(upper_bound) / step.total_seconds if step else 0.0
