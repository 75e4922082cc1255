"""The whole answer: what a workload takes in that layout on that hardware, and whether it fits."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from gpufleet.catalog import Accelerator
from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.memory.constants import constants
from gpufleet.sizing.memory.inference import engine_of, inference_share
from gpufleet.sizing.memory.result import GIB, Memory, Share
from gpufleet.sizing.memory.training import training_share
from gpufleet.sizing.workload import Recompute, Training, Workload

Step = tuple[Recompute, bool]  # what is recomputed, and whether the loss is taken in chunks
TUNING: tuple[Step, ...] = (("none", False), ("full", True))
PRETRAINING: tuple[Step, ...] = (("selective", False), ("full", False), ("full", True))


def memory(workload: Workload, layout: Layout, hardware: Hardware) -> Memory:
    """Return what the workload takes; recomputation left to us is the least that fits."""
    return fitted(workload, layout, hardware)[1]


def fitted(workload: Workload, layout: Layout, hardware: Hardware) -> tuple[Workload, Memory]:
    """Return the workload with what was left open chosen, and what it then takes."""
    chosen, share = _settled(workload, layout, hardware)
    return chosen, _memory(chosen, share, layout, hardware)


def settled(workload: Workload, layout: Layout, hardware: Hardware) -> Workload:
    """Return the workload with ``recompute`` chosen where it was left open: the least that fits.

    Fine-tuning that must save memory saves it at the loss as well: full recomputation with a chunked loss.
    Pre-training begins with what its libraries begin with, every other product kept and whole logits.
    """
    if not workload.trains or workload.training.recompute != "auto":
        return workload
    return _settled(workload, layout, hardware)[0]


def _settled(workload: Workload, layout: Layout, hardware: Hardware) -> tuple[Workload, Share]:
    if not workload.trains or workload.training.recompute != "auto":
        return workload, _share(workload, layout, hardware)
    room = _room(hardware, layout)
    ladder = PRETRAINING if workload.task == "pretrain" else TUNING
    for recompute, chunked in ladder:
        training = recomputed(workload.training, recompute, chunked=chunked)
        chosen = replace(workload, training=training)
        share = _share(chosen, layout, hardware)
        if share.total <= room:
            break
    return chosen, share


@lru_cache(maxsize=256)
def recomputed(training: Training, recompute: Recompute, *, chunked: bool = False) -> Training:
    """Return a training that computes so much again, and takes its loss in chunks where that is asked for too."""
    return replace(training, recompute=recompute, fused_loss=training.fused_loss or chunked)


def usable_gib(part: Accelerator) -> float:
    """Return what an allocator can take of one device: less the driver's context."""
    usable = part.usable_gib or part.memory_gib
    own = part.unified or part.kind in {"sbc", "npu", "apple"}
    return usable if own else usable - constants()["context_gib"]


def _room(hardware: Hardware, layout: Layout) -> float:
    """Return the bytes of one device that a workload may fill: communication buffers are outside the allocator."""
    buffers = constants()["collective_gib"] if layout.devices > 1 and not hardware.unified else 0.0
    return (usable_gib(hardware.accelerator) - buffers) * GIB


def _allowed(workload: Workload, hardware: Hardware, layout: Layout) -> float:
    """Return the bytes that the engine lets a workload fill with its own settings: a server takes a share of the card.

    Its CUDA graphs are captured outside that share.
    """
    room = _room(hardware, layout)
    claimed = _claimed(workload, hardware) * GIB
    if not claimed:
        return room
    return min(room, claimed + engine_of(workload, hardware.accelerator).graphs_gib * GIB)


def _share(workload: Workload, layout: Layout, hardware: Hardware) -> Share:
    if workload.trains:
        return training_share(workload, layout)
    return inference_share(workload, layout, hardware)


def _memory(workload: Workload, share: Share, layout: Layout, hardware: Hardware) -> Memory:
    devices = max(1, layout.devices)
    usable = usable_gib(hardware.accelerator)
    peak, room = share.total / GIB, _allowed(workload, hardware, layout)
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
        fits=share.total <= room,
        reserved_gib=max(peak, _claimed(workload, hardware)),
        host_gib=share.host * devices / GIB,
        room_gib=room / GIB,
        notes=tuple(_notes(workload, share, layout, hardware)),
    )


def _claimed(workload: Workload, hardware: Hardware) -> float:
    if workload.trains:
        return 0.0
    part = hardware.accelerator
    return engine_of(workload, part).claims * (part.usable_gib or part.memory_gib)


def _notes(workload: Workload, share: Share, layout: Layout, hardware: Hardware) -> list[str]:
    found = []
    if workload.trains:
        loss = ", loss in chunks" if workload.training.fused_loss else ""
        found.append(f"activations recomputed: {workload.training.recompute}{loss}")
    if share.host:
        found.append(
            f"{share.host * layout.devices / GIB:.1f} GiB of states in host memory, not in these figures"
        )
    room = _room(hardware, layout)
    if workload.task == "full_finetune" and share.total > room:
        low = _share(_low_memory(workload), layout, hardware).total
        if low <= room:
            found.append(
                f"fits in {low / GIB:.1f} GiB with paged 8-bit AdamW that steps in the backward pass"
            )
    return found


def _low_memory(workload: Workload) -> Workload:
    training = replace(
        workload.training,
        optimizer="paged_adamw_8bit",
        step_in_backward=True,
        master_copy=False,
        recompute="full",
        fused_loss=True,
    )
    return replace(workload, training=training)
