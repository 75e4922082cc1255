"""The whole answer: what a workload takes in that layout on that hardware, and whether it fits."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.catalog import Accelerator
from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.memory.constants import constants
from gpufleet.sizing.memory.inference import engine_of, inference_share
from gpufleet.sizing.memory.result import GIB, Memory, Share
from gpufleet.sizing.memory.training import training_share
from gpufleet.sizing.workload import Recompute, Workload

LADDER: tuple[Recompute, ...] = ("none", "selective", "full")


def memory(workload: Workload, layout: Layout, hardware: Hardware) -> Memory:
    """Return what the workload takes; recomputation left to us is the least that fits."""
    settled_workload = settled(workload, layout, hardware)
    share = _share(settled_workload, layout, hardware)
    return _memory(settled_workload, share, layout, hardware)


def settled(workload: Workload, layout: Layout, hardware: Hardware) -> Workload:
    """Return the workload with ``recompute`` chosen where it was left open: the least that fits, else all."""
    if not workload.trains or workload.training.recompute != "auto":
        return workload
    usable = usable_gib(hardware.accelerator) * GIB
    for recompute in LADDER:
        chosen = replace(workload, training=replace(workload.training, recompute=recompute))
        if _share(chosen, layout, hardware).total <= usable:
            return chosen
    return replace(workload, training=replace(workload.training, recompute="full"))


def usable_gib(part: Accelerator) -> float:
    """Return what software can take of one device: the driver's own share is gone already."""
    usable = part.usable_gib or part.memory_gib
    return usable - (
        0.0 if part.unified or part.kind in {"sbc", "npu", "apple"} else constants()["context_gib"]
    )


def _share(workload: Workload, layout: Layout, hardware: Hardware) -> Share:
    if workload.trains:
        return training_share(workload, layout)
    return inference_share(workload, layout, hardware)


def _memory(workload: Workload, share: Share, layout: Layout, hardware: Hardware) -> Memory:
    devices = max(1, layout.devices)
    usable = usable_gib(hardware.accelerator)
    peak = share.total / GIB
    parts = {
        "weights": share.weights,
        "gradients": share.gradients,
        "optimizer": share.optimizer,
        "activations": share.activations,
        "kv_cache": share.kv_cache,
        "overhead": share.overhead,
    }
    summed = {name: size * devices / GIB for name, size in parts.items()}
    return Memory(
        **summed,
        total=sum(summed.values()),
        per_device_gib=peak,
        usable_gib=usable,
        fits=peak <= usable,
        reserved_gib=max(peak, _claimed(workload, hardware)),
        host_gib=share.host * devices / GIB,
        notes=tuple(_notes(workload, share)),
    )


def _claimed(workload: Workload, hardware: Hardware) -> float:
    if workload.trains:
        return 0.0
    part = hardware.accelerator
    return engine_of(workload, part).claims * (part.usable_gib or part.memory_gib)


def _notes(workload: Workload, share: Share) -> list[str]:
    found = []
    if workload.trains:
        found.append(f"activations recomputed: {workload.training.recompute}")
    if share.host:
        found.append("states moved to the host are not in these figures")
    return found
