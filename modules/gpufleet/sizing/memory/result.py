"""Results of the memory model."""

from __future__ import annotations

import dataclasses

from gpufleet.quick_dataclass import dataclass

GIB = 1024.0**3


@dataclass(frozen=True)
class MemoryEstimate:
    """GiB summed over the devices of one replica; ``per_device_gib`` is the peak on the fullest device.

    ``reserved_gib`` is what the engine allocates on one device: vLLM takes gpu_memory_utilization of the card, other
    engines what they need. ``host_gib`` is offloaded to the host. ``available_gib`` is the part of ``usable_gib`` that
    the workload may fill: the engine's share of the card, less communication buffers.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    kv_cache: float
    overhead: float
    total: float
    per_device_gib: float
    usable_gib: float
    fits: bool
    reserved_gib: float = 0.0
    host_gib: float = 0.0
    available_gib: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class QuickDeviceEstimate:
    """A rule of thumb's accelerator count, its formula and what it leaves out."""

    accelerators: float
    formula: str
    leaves_out: str


@dataclasses.dataclass
class DeviceMemoryUse:
    """Bytes on one device by component; ``host_offload`` are the bytes moved to host memory."""

    weights: float = 0.0
    gradients: float = 0.0
    optimizer: float = 0.0
    activations: float = 0.0
    kv_cache: float = 0.0
    overhead: float = 0.0
    host_offload: float = 0.0

    @property
    def total_bytes(self) -> float:
        """Return the bytes on the device."""
        return (
            self.weights + self.gradients + self.optimizer + self.activations + self.kv_cache + self.overhead
        )
