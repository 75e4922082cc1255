"""Placement of one replica on hardware: its layout, memory and speed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing import parallelism
from gpufleet.sizing.hardware import Hardware, ParallelLayout
from gpufleet.sizing.memory.estimate import choose_recompute_and_estimate_memory, with_recompute
from gpufleet.sizing.memory.result import MemoryEstimate
from gpufleet.sizing.model_engine import ModelEngine, choose_model_engine
from gpufleet.sizing.node_hardware import with_link_for_device_count
from gpufleet.sizing.speed import SpeedEstimate, estimate_speed
from gpufleet.sizing.workload import Workload

MAX_NODES = 1024
NODES_ON_A_FABRIC = 16  # assumption
NODES_ON_ETHERNET = 2  # assumption
FABRICS = ("EFA", "InfiniBand", "RoCE")
MAX_DOUBLINGS = 6  # doublings beyond an even division


@dataclass(frozen=True)
class Placement:
    """A workload on a layout, with the engine that runs it and its memory estimate."""

    workload: Workload
    hardware: Hardware
    layout: ParallelLayout
    engine: ModelEngine
    memory: MemoryEstimate
    can_choose_recompute: bool = False  # recomputation is automatic and chosen again for another batch

    @property
    def fits_in_memory(self) -> bool:
        """True if memory suffices."""
        return self.memory.fits

    def predict_speed(self) -> SpeedEstimate:
        """Return the speed of the replica."""
        return estimate_speed(
            self.workload, self.layout, with_link_for_device_count(self.hardware, self.layout.devices)
        )

    def with_batch(self, batch: int) -> Placement:
        """Return the placement with another number of streams or another micro-batch."""
        training = self.workload.training
        if self.can_choose_recompute:
            training = with_recompute(training, "auto")
        return place_workload_on_layout(
            replace(self.workload, batch=batch, training=training), self.hardware, self.layout, self.engine
        )


def place_workload_on_layout(
    workload: Workload, hardware: Hardware, layout: ParallelLayout, engine: ModelEngine
) -> Placement:
    """Return the workload on that layout, with automatic recomputation chosen."""
    is_open = workload.is_training and workload.training.recompute == "auto"
    chosen_workload, memory = choose_recompute_and_estimate_memory(workload, layout, hardware)
    return Placement(chosen_workload, hardware, layout, engine, memory, is_open)


def place_workload_on_devices(
    workload: Workload, hardware: Hardware, devices: int, *, quick: bool = False
) -> Placement:
    """Return the first layout on so many devices that fits; if none fits, the first layout.

    For training it is the simplest one; ``find_fastest_training_placement`` searches for the fastest.
    """
    engine = choose_model_engine(hardware, workload, parallelism.count_nodes_for_devices(hardware, devices))
    workload = with_engine(workload, engine.name)
    first: Placement | None = None
    if workload.is_training:
        layouts = parallelism.list_training_layouts(workload, hardware, devices, quick=quick)
    else:
        layouts = parallelism.list_inference_layouts(workload, hardware, devices, engine)
    for layout in layouts:
        for variant in list_sharded_workloads(workload, devices):
            placement = place_workload_on_layout(variant, hardware, layout, engine)
            if placement.fits_in_memory:
                return placement
            first = first or placement
    if first is None:
        raise ValueError(f"no layout on {devices} devices")
    return first


@lru_cache(maxsize=64)
def with_engine(workload: Workload, engine: str) -> Workload:
    """Return the workload with that engine."""
    return replace(workload, engine=engine)


def list_sharded_workloads(workload: Workload, devices: int) -> tuple[Workload, ...]:
    """Return shardings of a training: adapters are replicated on every device if that fits, else sharded."""
    return _list_shardings(workload, devices > 1) if workload.is_training else (workload,)


@lru_cache(maxsize=256)
def _list_shardings(workload: Workload, has_several_devices: bool) -> tuple[Workload, ...]:
    training = workload.training
    sharding = "zero3" if training.sharding == "auto" else training.sharding
    sharded = replace(workload, training=replace(training, sharding=sharding))
    if workload.adapter_kind != "none" and has_several_devices and training.sharding == "auto":
        return replace(workload, training=replace(training, sharding="none")), sharded
    return (sharded,)


def find_smallest_placement(workload: Workload, hardware: Hardware) -> Placement | None:
    """Return the smallest replica that fits, None if none fits."""
    single_device = place_workload_on_devices(workload, hardware, 1, quick=True)
    needs_full_nodes = hardware.origin != "accelerator" and workload.is_training
    if single_device.fits_in_memory and not needs_full_nodes:
        return single_device
    least = _min_devices(single_device)
    attempts = 0
    for devices in list_device_counts(
        hardware, whole_nodes=needs_full_nodes, is_training=workload.is_training
    ):
        if devices < least:
            continue
        placement = place_workload_on_devices(workload, hardware, devices, quick=True)
        if placement.fits_in_memory:
            return placement
        attempts += 1
        if (
            attempts == MAX_DOUBLINGS or placement.layout.devices < devices
        ):  # the engine cannot use more devices
            return None
    return None


def list_device_counts(
    hardware: Hardware, *, whole_nodes: bool = False, is_training: bool = True
) -> Iterator[int]:
    """Yield device counts to try: powers of two within a node, then doubled nodes, then all nodes."""
    per_node = hardware.devices_per_node
    max_nodes = hardware.node_limit or (MAX_NODES if is_training else max_nodes_per_replica(hardware))
    if not whole_nodes:
        yield from (1 << power for power in range(per_node.bit_length()) if 1 << power < per_node)
    nodes = 1
    while nodes < max_nodes:
        yield nodes * per_node
        nodes *= 2
    yield max_nodes * per_node


def max_nodes_per_replica(hardware: Hardware) -> int:
    """Return over how many nodes an inference replica may span: few if they are connected by Ethernet only."""
    if hardware.origin == "cloud":
        return NODES_ON_A_FABRIC if hardware.network in FABRICS else NODES_ON_ETHERNET
    return NODES_ON_A_FABRIC


def _min_devices(single_device: Placement) -> int:
    """Return a lower bound of devices: the divisible memory spread evenly."""
    memory, usable = single_device.memory, max(single_device.memory.usable_gib, 1e-6)
    if single_device.workload.is_training:
        return max(1, int((memory.weights + memory.gradients + memory.optimizer) / usable))
    return max(1, int(memory.total * 0.9 / usable))
