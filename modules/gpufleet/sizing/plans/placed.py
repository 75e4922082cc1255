"""One replica on one kind of hardware: the layout that fits, its memory and its speed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpufleet.sizing import placing
from gpufleet.sizing.engines import engine_on
from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.memory import Memory, memory
from gpufleet.sizing.resolve import joined
from gpufleet.sizing.speed import Speed, speed
from gpufleet.sizing.workload import Workload

MOST_NODES = 1024


@dataclass(frozen=True)
class Placed:
    """A workload on a layout, and what it takes there."""

    workload: Workload
    hardware: Hardware
    layout: Layout
    memory: Memory

    @property
    def fits(self) -> bool:
        """Tell whether memory suffices."""
        return self.memory.fits

    def speed(self) -> Speed:
        """Return how fast it is."""
        return speed(self.workload, self.layout, joined(self.hardware, self.layout.devices))

    def with_batch(self, batch: int) -> Placed:
        """Return the same with another number of streams."""
        workload = replace(self.workload, batch=batch)
        return replace(self, workload=workload, memory=memory(workload, self.layout, self.hardware))


def place(workload: Workload, hardware: Hardware, devices: int) -> Placed:
    """Return the best layout on so many devices that fits; where none does, the best one."""
    ways = placing.training if workload.trains else placing.inference
    runs_on = engine_on(hardware, workload, placing.nodes_for(hardware, devices))
    workload = replace(workload, engine=runs_on.name)
    first: Placed | None = None
    for layout in ways(workload, hardware, devices):
        for asked in shardings(workload, devices):
            placed = Placed(asked, hardware, layout, memory(asked, layout, hardware))
            if placed.fits:
                return placed
            first = first or placed
    if first is None:
        raise ValueError(f"no layout on {devices} devices")
    return first


def shardings(workload: Workload, devices: int) -> Iterator[Workload]:
    """Yield the ways to shard a training: adapters are copied to every device while that fits, else sharded."""
    training = workload.training
    if workload.trains and workload.adapter != "none" and devices > 1 and training.sharding == "auto":
        yield replace(workload, training=replace(training, sharding="none"))
    chosen = "zero3" if training.sharding == "auto" else training.sharding
    yield replace(workload, training=replace(training, sharding=chosen))


def smallest(workload: Workload, hardware: Hardware) -> Placed | None:
    """Return the smallest replica that fits, None where not even the largest does."""
    one = place(workload, hardware, 1)
    whole = hardware.origin != "part" and workload.trains
    if one.fits and not whole:
        return one
    least = _least(one)
    for devices in sizes(hardware, whole_nodes=whole):
        if least <= devices:
            placed = place(workload, hardware, devices)
            if placed.fits:
                return placed
            if placed.layout.devices < devices:  # the engine can use no more of them
                return None
            if workload.trains and _hopeless(placed):
                return None
    return None


def sizes(hardware: Hardware, *, whole_nodes: bool = False) -> Iterator[int]:
    """Yield numbers of devices to try: powers of two within a node, then nodes by doubling, then all there are."""
    per_node = hardware.devices_per_node
    most = hardware.node_limit or MOST_NODES
    if not whole_nodes:
        yield from (1 << power for power in range(per_node.bit_length()) if 1 << power < per_node)
    nodes = 1
    while nodes < most:
        yield nodes * per_node
        nodes *= 2
    yield most * per_node


def _least(one: Placed) -> int:
    """Return how many devices it takes if all could be divided evenly."""
    usable = max(one.memory.usable_gib, 1e-6)
    if one.workload.trains:
        states = one.memory.weights + one.memory.gradients + one.memory.optimizer
        rest = one.memory.total - states
        return max(1, int(states / max(usable - rest, 0.1 * usable))) if one.workload.adapter == "none" else 1
    return max(1, int(one.memory.total * 0.9 / usable))


def _hopeless(placed: Placed) -> bool:
    """Tell whether more devices can't help: what does not shrink with them is too large already."""
    layout, held = placed.layout, placed.memory
    fixed = (held.activations + held.overhead) / max(1, layout.devices)
    return fixed > held.usable_gib and layout.tensor * layout.pipeline >= placed.hardware.devices_per_node
