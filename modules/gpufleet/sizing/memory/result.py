"""What a workload takes in memory."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1024.0**3


@dataclass(frozen=True)
class MemoryEstimate:
    """GiB summed over the devices of one replica; ``per_device_gib`` is the peak on the fullest device.

    ``reserved_gib`` is what the engine takes for itself on one device where it takes more than is needed
    (vLLM claims a fraction of the card and fills it with cache); else the need. ``host_gib`` was offloaded.
    ``room_gib`` is what of ``usable_gib`` may be filled: an engine's own share of the card, less what others need.
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
class QuickEstimate:
    """A quick formula's answer beside ours, and what the formula leaves out."""

    accelerators: float
    formula: str
    leaves_out: str


@dataclass
class DeviceMemory:
    """Bytes on one device, filled in part by part; ``host`` is what was moved off it."""

    weights: float = 0.0
    gradients: float = 0.0
    optimizer: float = 0.0
    activations: float = 0.0
    kv_cache: float = 0.0
    overhead: float = 0.0
    host_offload: float = 0.0

    @property
    def total(self) -> float:
        """Return the bytes on the device."""
        return (
            self.weights + self.gradients + self.optimizer + self.activations + self.kv_cache + self.overhead
        )
