"""Device memory that is reserved for other processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpufleet.sizing.hardware import Hardware
from gpufleet.sizing.memory.constants import load_memory_constants
from gpufleet.sizing.plan_warning import PlanWarning
from gpufleet.sizing.plans.request import SizingRequest


def subtract_reserved_memory(hardware: Hardware, request: SizingRequest) -> Hardware:
    """Return the hardware without the memory that other processes use."""
    if not request.reserve_gib:
        return hardware
    accelerator = hardware.accelerator
    usable = (accelerator.usable_gib or accelerator.memory_gib) - _reserved_gib(hardware, request)
    return replace(hardware, accelerator=replace(accelerator, usable_gib=max(usable, 1e-6)))


def reserved_memory_warnings(request: SizingRequest) -> Iterator[PlanWarning]:
    """Yield a warning with the reserved memory."""
    if request.reserve_gib:
        text = (
            f"{request.reserve_gib:g} GiB of each device are reserved for other processes, and on a card "
            f"{load_memory_constants()['context_gib']:g} GiB for their driver context; their effect on "
            "speed is not known"
        )
        yield PlanWarning("memory-reserved", text, "--reserve-gib")


def _reserved_gib(hardware: Hardware, request: SizingRequest) -> float:
    """Return the reserved GiB; on a card with one more driver context."""
    context = 0.0 if hardware.unified else load_memory_constants()["context_gib"]
    return request.reserve_gib + context
