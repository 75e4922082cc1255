"""The fastest way to lay a training on devices: layouts, shardings and micro-batches, of which the best is taken.

A layout has to be worth its complication: it is taken for a simpler one only where it is faster by ``WORTH_IT``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpufleet.sizing import placing
from gpufleet.sizing.engines import engine_on
from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.plans.placed import Placed, held, shardings
from gpufleet.sizing.speed.predict import setting
from gpufleet.sizing.speed.training import parts
from gpufleet.sizing.workload import Workload

MICRO_BATCHES = (2, 4, 8, 16)
WORTH_IT = 1.02  # a larger micro-batch costs memory, another layout trouble: two per cent are not worth it


def fastest(
    workload: Workload, hardware: Hardware, devices: int, *, open_batch: bool = False, quick: bool = False
) -> Placed:
    """Return the fastest training that fits on at most so many devices; where none fits, the simplest."""
    runs_on = engine_on(hardware, workload, placing.nodes_for(hardware, devices))
    workload = replace(workload, engine=runs_on.name)
    best: Placed | None = None
    simplest: Placed | None = None
    speed, bound = 0.0, _bound(workload, hardware, devices)
    for placed in _ways(workload, hardware, devices, quick=quick):
        simplest = simplest or placed
        if not placed.fits:
            continue
        found = tuned(placed) if open_batch else placed
        rate = found.speed().tokens_per_s or 0.0
        if best is None or rate > speed * WORTH_IT:
            best, speed = found, rate
        if speed * WORTH_IT >= bound:
            break
    chosen = best or simplest
    if chosen is None:
        raise ValueError(f"no layout on {devices} devices")
    return chosen


def tuned(placed: Placed) -> Placed:
    """Return a training with the micro-batch that is fastest and fits."""
    if not placed.fits:
        return placed
    best, speed = placed, placed.speed().tokens_per_s or 0.0
    for batch in MICRO_BATCHES:
        more = placed.with_batch(batch)
        faster = (more.speed().tokens_per_s or 0.0) if more.fits else 0.0
        if faster <= speed * WORTH_IT:
            break
        best, speed = more, faster
    return best


def _ways(workload: Workload, hardware: Hardware, devices: int, *, quick: bool) -> Iterator[Placed]:
    for layout in placing.training(workload, hardware, devices, quick=quick):
        for asked in shardings(workload, layout.devices):
            yield held(asked, hardware, layout)


def _bound(workload: Workload, hardware: Hardware, devices: int) -> float:
    """Return the tokens per second of devices that only compute, and nothing twice: no layout is faster."""
    least = replace(workload, training=replace(workload.training, recompute="none", offload="none"))
    layout = Layout(placing.nodes_for(hardware, devices), devices, data=devices)
    found = parts(setting(least, layout, hardware))
    return workload.batch * workload.context * devices / found.compute if found else 0.0
